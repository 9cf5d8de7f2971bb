"""The memory files MEMORY.md and USER.md: reading, writing and importing them."""
