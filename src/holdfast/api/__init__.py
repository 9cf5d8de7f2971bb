"""The HTTP API: JSON over loopback, WebSocket, server-sent events, the OpenAI-compatible routes and the chat page."""
