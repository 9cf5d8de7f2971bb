"""Limits of the HTTP server: per client, per token and in total."""
