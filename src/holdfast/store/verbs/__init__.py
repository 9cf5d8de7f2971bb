"""The verbs of the store, grouped."""
