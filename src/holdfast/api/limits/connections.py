"""Connections: how many are open, by client, and which of them make room for a new one.

Rule 1: a new connection is never refused while another one is idle; the one that has been idle longest makes room. Idle
        is a connection that has not shown the whole head of a request, waits for the next one, or was answered.
Rule 2: a connection with a request under way is never cut off here. Requests are limited by admission.py, which leaves
        the operator's share of the connections free; so one of the others is always idle.
Rule 3: room is made only after every connection that was opened meanwhile has been read once: a client whose head has
        already arrived is not taken for one that sends nothing.
Rule 4: behind a trusted proxy, and on this machine, many clients share one address; only what has not shown its head is
        counted per address there, and behind a proxy not even that.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.api.limits.server_limits import ServerLimits


class OpenConnection(Protocol):
    """What is counted. `peer` is the address at the other end of the socket."""

    @property
    def peer(self) -> str: ...

    @property
    def has_unsent(self) -> bool:
        """Whether an answer is still on its way."""
        ...

    def drop(self) -> None:
        """End it at once."""
        ...


class Connections:
    def __init__(
        self, limits: ServerLimits, is_proxy: Callable[[str], bool], dropped: Callable[[str], None] = lambda _: None
    ) -> None:
        self._limits = limits
        self._is_proxy = is_proxy
        self._dropped = dropped
        self._open: dict[OpenConnection, str] = {}  # with its client
        self._by_client: Counter[str] = Counter()
        self._idle: dict[OpenConnection, None] = {}  # the one that has been idle longest first
        self._half_open: dict[OpenConnection, None] = {}  # of these, the ones that have not shown a whole head
        self._half_open_by_client: Counter[str] = Counter()
        self._is_due = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def half_open(self) -> int:
        return len(self._half_open)

    # --- what connections tell

    def opened(self, one: OpenConnection) -> None:
        client = client_key(one.peer)
        self._open[one] = client
        self._by_client[client] += 1
        self.awaits_head(one)
        if not self._is_due:
            self._is_due = True
            self._after_reading(self._make_room)

    def awaits_head(self, one: OpenConnection) -> None:
        """The connection has begun, or begins another request, and has not shown the whole head of it."""
        if one in self._open and one not in self._half_open:
            self._idle.setdefault(one)
            self._half_open[one] = None
            self._half_open_by_client[self._open[one]] += 1

    def works(self, one: OpenConnection) -> None:
        """A request is under way."""
        self._idle.pop(one, None)
        if one in self._half_open:
            del self._half_open[one]
            _less(self._half_open_by_client, self._open[one])

    def rests(self, one: OpenConnection) -> None:
        """The last request was answered."""
        if one in self._open:
            self._idle[one] = None

    def closed(self, one: OpenConnection) -> None:
        self.works(one)
        client = self._open.pop(one, None)
        if client is not None:
            _less(self._by_client, client)

    # --- making room

    def _after_reading(self, then: Callable[[], None]) -> None:
        """Two turns of the event loop later: what has arrived on new connections has been read by then."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, then)

    def _make_room(self) -> None:
        self._is_due = False
        limits = self._limits
        for client in [one for one, n in self._half_open_by_client.items() if n > limits.client_half_open_max]:
            if not self._is_proxy(client):
                self._drop_half_open(self._half_open_by_client[client] - limits.client_half_open_max, client)
        self._drop_half_open(len(self._half_open) - limits.half_open_max)
        for client in [one for one, n in self._by_client.items() if n > limits.client_connections_max]:
            if not (is_loopback(client) or self._is_proxy(client)):
                self._drop_idle(self._by_client[client] - limits.client_connections_max, client)
        self._drop_idle(len(self._open) - self._limits.connections_max)

    def _drop_half_open(self, count: int, client: str | None = None) -> None:
        self._drop_oldest(self._half_open, count, client, "half_open")

    def _drop_idle(self, count: int, client: str | None = None) -> None:
        self._drop_oldest(self._idle, count, client, "connections")

    def _drop_oldest(self, among: Iterable[OpenConnection], count: int, client: str | None, why: str) -> None:
        if count <= 0:
            return
        found = [one for one in among if client is None or self._open[one] == client]
        found.sort(key=lambda one: one.has_unsent)  # an answer that is still on its way goes last
        for one in found[:count]:
            self._drop(one, why)

    def _drop(self, one: OpenConnection, why: str) -> None:
        self.closed(one)
        self._dropped(why)
        one.drop()


def client_key(address: str) -> str:
    """What counts as one client: the address, or the /64 network of an IPv6 address."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    return str(known) if known.is_loopback else str(ipaddress.ip_network((known, 64), strict=False).network_address)


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _less(counter: "Counter[str]", key: str) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
