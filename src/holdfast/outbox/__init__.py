"""The outbox sends answers to their platforms: replies and their ledger, splitting, drafts, the typing indicator."""
