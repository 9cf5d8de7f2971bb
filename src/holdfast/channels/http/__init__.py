"""The HTTP channel: JSON over loopback, one bearer token."""
