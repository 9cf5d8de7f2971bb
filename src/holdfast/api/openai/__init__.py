"""The OpenAI-compatible API: clients that speak to OpenAI speak to agents, unchanged."""
