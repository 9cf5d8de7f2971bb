"""The protocols of the store."""
