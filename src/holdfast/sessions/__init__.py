"""Sessions, conversation commands, compression, expiry, finalisation and the compression audit."""
