"""Replies while they are made: frames, server-sent events, WebSocket."""
