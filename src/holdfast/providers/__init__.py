"""Memory providers: each folder adapts one service, or the local index, to ports/provider.py."""
