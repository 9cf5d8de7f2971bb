"""Hermes Agent: its memory plugin, the doctor of its database, and the import of its history."""
