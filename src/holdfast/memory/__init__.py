"""The agent's memory outside the store: its files, what Hermes left, and the tool that models use."""
