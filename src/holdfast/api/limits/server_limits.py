"""Limits of the HTTP server: per client, per token and in total. Pure.

A client is an address, as reported by a trusted proxy if there is one. An IPv6 address counts as its /64 network, which
one machine may use as a whole. The operator (a token with the scope admin for all agents, and health checks from this
machine) does not count for a client or a token, and has connections reserved for it.
"""

from typing import Annotated

from msgspec import Meta, Struct

MEGABYTE = 1024 * 1024
Bytes = Annotated[int, Meta(ge=65_536, le=1 << 40)]
Many = Annotated[int, Meta(ge=1, le=1_000_000)]


class ServerLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server.limits] of holdfast.toml."""

    connections_max: Annotated[int, Meta(ge=2, le=100_000)] = (
        800  # below the usual limit of 1,024 open files; the store needs some
    )
    operator_connections: Many = 32  # of these, reserved for the operator
    client_connections_max: Many = 400
    half_open_max: Many = 256  # connections without a complete head
    client_half_open_max: Many = 128
    client_requests_max: Many = 400  # open at once; a stream or a WebSocket is open until it ends
    token_requests_max: Many = 400
    body_bytes_max: Bytes = 32 * MEGABYTE  # of bodies in memory at once
    client_body_bytes_max: Bytes = 16 * MEGABYTE
    token_body_bytes_max: Bytes = 16 * MEGABYTE
    client_bytes_per_minute: Bytes = 256 * MEGABYTE
    token_bytes_per_minute: Bytes = 256 * MEGABYTE
    client_chats_per_hour: Many = 2_000  # chats that did not exist before
    token_chats_per_hour: Many = 1_000

    def fault(self) -> tuple[str, str] | None:
        """The first setting that contradicts another, and its valid value."""
        if self.operator_connections >= self.connections_max:
            return "operator_connections", f"it must be below connections_max, which is {self.connections_max}"
        pairs = (
            ("client_connections_max", self.client_connections_max, "connections_max", self.connections_max),
            ("half_open_max", self.half_open_max, "connections_max", self.connections_max),
            ("client_half_open_max", self.client_half_open_max, "half_open_max", self.half_open_max),
            ("client_body_bytes_max", self.client_body_bytes_max, "body_bytes_max", self.body_bytes_max),
            ("token_body_bytes_max", self.token_body_bytes_max, "body_bytes_max", self.body_bytes_max),
        )
        for name, value, whole, most in pairs:
            if value > most:
                return name, f"it must not be above {whole}, which is {most}"
        return None
