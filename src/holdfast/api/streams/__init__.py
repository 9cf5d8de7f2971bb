"""Streaming of replies: frames, server-sent events, WebSocket."""
