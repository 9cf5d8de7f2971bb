"""Encryption at rest: the store, the index of the local provider and the log, under one key of the operator."""
