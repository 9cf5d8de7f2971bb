"""Memory providers: each folder adapts one service, or the local index, to memory/provider.py."""
