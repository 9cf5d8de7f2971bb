"""The wiring: the application, its assembly, the supervisor, node membership, and the library interface."""
