"""Export and import: conversations and notes as lines of JSON, which another store takes over once."""
