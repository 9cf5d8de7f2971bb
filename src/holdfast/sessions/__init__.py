"""Who a conversation is: sessions, conversation commands, compression, expiry, finalisation, the compression audit."""
