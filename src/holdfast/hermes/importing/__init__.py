"""The import of Hermes' history."""
