"""Encryption at rest: one key of the operator encrypts the store, the local provider's index and the log."""
