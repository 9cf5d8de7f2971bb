"""Connections: how many are open, per client, and which are closed to admit a new one.

Rule 1: a new connection is never refused while another one is idle; the connection that has been idle longest is
        closed. A connection is idle if it has not sent the whole head of a request, waits for the next request, or was
        answered.
Rule 2: a connection with a request in progress is never closed here. admission.py limits requests and leaves the
        operator's share of the connections free, so one of the other connections is always idle.
Rule 3: connections are closed only after every connection that was opened meanwhile has been read once, so a client
        whose head has already arrived does not count as one that sends nothing.
Rule 4: behind a trusted proxy, and on this machine, many clients share one address. On this machine only connections
        without a complete head are counted per address; behind a proxy none are.
Rule 5: `fitted` limits the number of connections to those that fit into the open files of this process.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from msgspec.structs import replace

from holdfast.api.limits.server_limits import ServerLimits
from holdfast.kernel import log

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

FILES_FOR_OTHERS = 200  # the store, its log, connections to models and platforms, and connections not yet closed


class OpenConnection:
    """A connection of the server, which `Connections` counts and may close."""

    transport: asyncio.Transport
    client: tuple[str, int] | None

    @property
    def peer(self) -> str:
        """The address of the remote end of the socket."""
        return self.client[0] if self.client else ""

    @property
    def has_unsent(self) -> bool:
        """Whether part of a response is not sent yet."""
        return self.transport.get_write_buffer_size() > 0

    def drop(self) -> None:
        """Close the connection immediately."""
        self.transport.abort()


class Connections:
    def __init__(
        self, limits: ServerLimits, is_proxy: Callable[[str], bool], dropped: Callable[[str], None] = lambda _: None
    ) -> None:
        self._limits = limits
        self._is_proxy = is_proxy
        self._dropped = dropped
        self._open: dict[OpenConnection, str] = {}  # connection to client
        self._by_client: Counter[str] = Counter()
        self._idle: dict[OpenConnection, None] = {}  # longest idle first
        self._half_open: dict[OpenConnection, None] = {}  # the idle ones without a complete head
        self._half_open_by_client: Counter[str] = Counter()
        self._is_due = False

    def __len__(self) -> int:
        return len(self._open)

    # --- events of connections

    def opened(self, one: OpenConnection) -> None:
        client = client_key(one.peer)
        self._open[one] = client
        self._by_client[client] += 1
        self.awaits_head(one)
        if not self._is_due:
            self._is_due = True
            self._after_reading(self._make_room)

    def awaits_head(self, one: OpenConnection) -> None:
        """The connection is new, or a new request has begun, and its head is not complete."""
        if one in self._open and one not in self._half_open:
            self._idle.setdefault(one)
            self._half_open[one] = None
            self._half_open_by_client[self._open[one]] += 1

    def works(self, one: OpenConnection) -> None:
        """A request is in progress."""
        self._idle.pop(one, None)
        if one in self._half_open:
            del self._half_open[one]
            reduce_count(self._half_open_by_client, self._open[one])

    def rests(self, one: OpenConnection) -> None:
        """The last request was answered."""
        if one in self._open:
            self._idle[one] = None

    def closed(self, one: OpenConnection) -> None:
        self.works(one)
        client = self._open.pop(one, None)
        if client is not None:
            reduce_count(self._by_client, client)

    # --- closing connections

    def _after_reading(self, then: Callable[[], None]) -> None:
        """Call `then` two event loop iterations later, when data that arrived on new connections has been read."""
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
        found.sort(key=lambda one: one.has_unsent)  # connections with an unsent response go last
        for one in found[:count]:
            self.closed(one)
            self._dropped(why)
            one.drop()


@lru_cache(maxsize=4_096)
def client_key(address: str) -> str:
    """The key of a client: its address, or the /64 network of an IPv6 address."""
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


def reduce_count(counter: "Counter[str]", key: str, by: int = 1) -> None:
    """Reduce a count, and forget a key whose count is zero."""
    counter[key] -= by
    if counter[key] <= 0:
        del counter[key]


def fitted(limits: ServerLimits) -> ServerLimits:
    """The limits, with as many connections as fit. The process raises its own soft limit up to the hard limit."""
    wanted = limits.connections_max
    allowed = _allowed(wanted + FILES_FOR_OTHERS)
    if allowed is None:
        return limits
    log.warning("http.limited", allowed=allowed, needed=wanted + FILES_FOR_OTHERS)
    held = max(2, allowed - FILES_FOR_OTHERS)
    return replace(limits, connections_max=held, operator_connections=min(limits.operator_connections, held // 2))


def _allowed(needed: int) -> int | None:
    """The number of files that this process may open, if it is less than needed."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    raised = needed if hard == resource.RLIM_INFINITY else max(soft, min(hard, needed))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised if raised < needed else None
