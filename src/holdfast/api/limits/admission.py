"""Admission: the head of a request decides what the request may use, before any of its body is read.

Rule 1: a request counts for its client and for its token. The operator's requests count for neither.
Rule 2: the operator's share of the connections stays free: other requests are refused before they use it.
Rule 3: a refusal has an error code and the time to retry after.
Rule 4: a request reserves the bytes of its body before it reads any of them. If they do not fit, it waits up to
        `WAIT_MS` for other requests to end, and is then refused. The operator has extra bytes beyond the total.

The counts are in memory only and may be lost.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b

from holdfast.api import errors
from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.caller import Caller
from holdfast.api.limits.connections import client_key, reduce_count
from holdfast.api.limits.server_limits import ServerLimits
from holdfast.kernel.ids import Instant
from holdfast.kernel.ports import Clock

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
CHATS_KNOWN_MAX = 10_000
KEYS_MAX = 10_000  # clients and tokens whose use within a window is counted
WAIT_MS = 5_000


@dataclass(frozen=True, slots=True)
class Requester:
    """The client and the token that a request counts for."""

    client: str
    token: str = ""  # empty: not yet known, or none
    is_operator: bool = False

    @classmethod
    def of(cls, address: str, caller: Caller | None, *, is_operator: bool = False) -> "Requester":
        if caller is None:
            return cls(client_key(address), "", is_operator)
        admin = caller.token.may(Scope.ADMIN) and not caller.token.agents
        return cls(client_key(address), caller.token.id, is_operator or admin)

    def keys(self, client_max: int, token_max: int) -> list[tuple[str, int]]:
        """The keys that the request counts for, each with its limit."""
        if self.is_operator:
            return []
        found = [(f"client {self.client}", client_max)]
        return [*found, (f"token {self.token}", token_max)] if self.token else found


class Admission:
    """Counts the open requests of this server."""

    def __init__(self, limits: ServerLimits, clock: Clock, *, body_bytes_max: int) -> None:
        self.limits = limits
        self.bodies = BodyMemory(max(limits.body_bytes_max, body_bytes_max), operator_bytes=2 * body_bytes_max)
        self.client_bodies_max = max(limits.client_body_bytes_max, body_bytes_max)
        self.token_bodies_max = max(limits.token_body_bytes_max, body_bytes_max)
        self.bytes_used = Allowance(clock, MINUTE_MS)
        self._chats_made = Allowance(clock, HOUR_MS)
        self._chats_known: OrderedDict[bytes, None] = OrderedDict()
        self._open: Counter[str] = Counter()
        self._others = 0  # requests of clients other than the operator

    @contextmanager
    def open(self, who: Requester) -> "Iterator[OpenRequest]":
        """Count a request while it runs. Raises `TooManyRequests` and `TooManyConnections`."""
        with closing(OpenRequest(self)) as opened:
            opened.count_for(who)
            yield opened

    def enter(self, who: Requester) -> None:
        most = self.limits.connections_max - self.limits.operator_connections
        if not who.is_operator and self._others >= most:
            raise errors.TooManyConnections(f"{most} requests are under way already")
        for key, key_max in self._keys(who):
            if self._open[key] >= key_max:
                raise errors.TooManyRequests(
                    f"{key_max} requests of this {key.partition(' ')[0]} are under way already"
                )
        self._others += not who.is_operator
        self._open.update(key for key, _ in self._keys(who))

    def leave(self, who: Requester) -> None:
        self._others -= not who.is_operator
        for key, _ in self._keys(who):
            reduce_count(self._open, key)

    def _keys(self, who: Requester) -> list[tuple[str, int]]:
        return who.keys(self.limits.client_requests_max, self.limits.token_requests_max)

    # --- chats

    async def admit_chat(self, who: Requester, address: str, exists: Callable[[], Awaitable[bool]]) -> None:
        """Count a chat that does not exist yet. Raises `TooManyChats`."""
        name = blake2b(address.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if name in self._chats_known:
            self._chats_known.move_to_end(name)
            return
        if not who.is_operator and not await exists():
            keys = who.keys(self.limits.client_chats_per_hour, self.limits.token_chats_per_hour)
            for key, most in keys:
                if wait_ms := self._chats_made.wait_ms(key, 1, most):
                    what = f"{most} new chats of this {key.partition(' ')[0]} within an hour"
                    raise errors.TooManyChats(what, retry_after_ms=wait_ms)
            for key, _ in keys:
                self._chats_made.use(key, 1)
        self._chats_known[name] = None
        if len(self._chats_known) > CHATS_KNOWN_MAX:
            self._chats_known.popitem(last=False)


class OpenRequest:
    """One open request, and the body bytes that it holds."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._who: Requester | None = None
        self._held = 0

    def count_for(self, who: Requester) -> None:
        """Count the request for `who` instead of its previous requester. Raises the errors of `Admission.enter`."""
        self.close()
        self._admission.enter(who)
        self._who = who

    async def hold(self, size: int) -> None:
        """Reserve `size` bytes for a body. Raises `ByteRateExceeded`, `TooManyBytes` and `BodyMemoryFull`."""
        self.free()
        wait_ms = self._byte_rate_wait_ms(size)
        if wait_ms:
            what = "this client or token has sent as many bytes as are taken within a minute"
            raise errors.ByteRateExceeded(what, retry_after_ms=wait_ms)
        await self._admission.bodies.hold(size, self._caps())
        self._held = size

    def read(self, size: int) -> None:
        """Record that the body has arrived with `size` bytes, and free the rest of the reservation."""
        kept = min(size, self._held)
        self._admission.bodies.give_back(self._held - kept, self._caps())
        self._held = kept
        self._use(size)

    def keep(self, size: int) -> bool:
        """Hold exactly `size` bytes of unfinished frames from now on; False if they do not fit."""
        more = size - self._held
        if more > 0 and self._byte_rate_wait_ms(more):
            return False
        self.free()
        if not self._admission.bodies.try_hold(size, self._caps()):
            return False
        self._held = size
        self._use(max(0, more))
        return True

    def _caps(self) -> list[tuple[str, int]]:
        admission = self._admission
        return self._who.keys(admission.client_bodies_max, admission.token_bodies_max) if self._who else []

    def _byte_rate_wait_ms(self, size: int) -> int:
        limits, used = self._admission.limits, self._admission.bytes_used
        keys = self._who.keys(limits.client_bytes_per_minute, limits.token_bytes_per_minute) if self._who else []
        return max((used.wait_ms(key, size, most) for key, most in keys), default=0)

    def _use(self, size: int) -> None:
        for key, _ in self._who.keys(0, 0) if self._who else ():
            self._admission.bytes_used.use(key, size)

    def free(self) -> None:
        """Free the bytes of the body."""
        if self._held:
            self._admission.bodies.give_back(self._held, self._caps())
            self._held = 0

    def close(self) -> None:
        self.free()
        if self._who is not None:
            self._admission.leave(self._who)
            self._who = None


class BodyMemory:
    """The bytes of request bodies in memory."""

    def __init__(self, bytes_max: int, operator_bytes: int) -> None:
        self._bytes_max = bytes_max
        self._operator_bytes = operator_bytes
        self.held = 0
        self._by_key: Counter[str] = Counter()
        self._freed = asyncio.Event()

    async def hold(self, size: int, caps: Sequence[tuple[str, int]]) -> None:
        """Wait until `size` more bytes fit. A request without `caps` is the operator's.

        Raises `TooManyBytes` and `BodyMemoryFull`.
        """
        try:
            async with asyncio.timeout(WAIT_MS / 1000):
                while not self.try_hold(size, caps):
                    await self._freed.wait()
        except TimeoutError as error:
            if self._exceeds(size, caps):
                what = "too many bytes of requests are on their way from this client or with this token"
                raise errors.TooManyBytes(what, retry_after_ms=WAIT_MS) from error
            what = f"{self.held} bytes of requests are in memory already"
            raise errors.BodyMemoryFull(what, retry_after_ms=WAIT_MS) from error

    def try_hold(self, size: int, caps: Sequence[tuple[str, int]]) -> bool:
        most = self._bytes_max if caps else self._bytes_max + self._operator_bytes
        if self.held + size > most or self._exceeds(size, caps):
            return False
        self.held += size
        for key, _ in caps:
            self._by_key[key] += size
        return True

    def give_back(self, size: int, caps: Sequence[tuple[str, int]]) -> None:
        self.held -= size
        for key, _ in caps:
            reduce_count(self._by_key, key, size)
        self._freed.set()
        self._freed = asyncio.Event()

    def _exceeds(self, size: int, caps: Sequence[tuple[str, int]]) -> bool:
        return any(self._by_key[key] + size > most for key, most in caps)


class Allowance:
    """What each client and token has used within a window of time."""

    def __init__(self, clock: Clock, window_ms: int) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self._used: OrderedDict[str, tuple[Instant, int]] = OrderedDict()

    def wait_ms(self, key: str, more: int, most: int) -> int:
        """Milliseconds until `more` fits below `most`; 0 if it fits now. An empty window accepts any amount once."""
        began, used = self._window(key)
        return 0 if used == 0 or used + more <= most else max(1, began + self._window_ms - self._clock.now())

    def use(self, key: str, amount: int) -> None:
        began, used = self._window(key)
        self._used[key] = (began, used + amount)
        self._used.move_to_end(key)
        if len(self._used) > KEYS_MAX:
            self._used.popitem(last=False)

    def _window(self, key: str) -> tuple[Instant, int]:
        now = self._clock.now()
        began, used = self._used.get(key, (now, 0))
        return (began, used) if 0 <= now - began < self._window_ms else (now, 0)
