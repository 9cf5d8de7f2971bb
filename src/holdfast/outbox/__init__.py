"""An answer reaches its platform: replies and their ledger, splitting, drafts, the typing indicator."""
