"""The OpenAI-compatible API: OpenAI's clients talk to agents without changes."""
