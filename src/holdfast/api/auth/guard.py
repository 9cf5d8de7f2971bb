"""The guard checks the host of a request, then its origin, then its credentials, before any of the body is read.

Rule 1: a browser that was tricked into resolving a foreign name to this machine names that host, and is refused.
Rule 2: tokens are compared by their hashes, and never taken from a URL.
Rule 3: wrong tokens are counted per client, but the count only changes the error: the right token always passes. On
        loopback every program is the same client and must not be able to lock the owner out. The length of the token
        protects it against guessing.
Rule 4: the client is the peer of the connection; a forwarded address is accepted from trusted proxies only.
Rule 5: a cookie never counts for a page of another origin. A cookie request that changes data must name this server's
        own origin: every browser sends it, while a program with a stolen cookie might not.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from holdfast.api import errors
from holdfast.api.auth.caller import OPERATOR, Caller, Keyring
from holdfast.api.auth.logins import CSRF_HEADER, Logins, cookie_name, read_cookie
from holdfast.api.limits.admission import Allowance
from holdfast.audit.action import ANONYMOUS, By, short
from holdfast.kernel import log
from holdfast.kernel.errors import ConfigInvalid, StoreUnavailable
from holdfast.kernel.notifier import is_set_within
from holdfast.kernel.ports import Clock

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z|\[[0-9A-Fa-f:.]{2,45}\]\Z")
TOKEN_FIELDS = frozenset(
    {"token", "access_token", "api_key", "api-key", "apikey", "auth", "authorization", "bearer", "secret", "password"}
)
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
ATTEMPTS_MAX = 20
ATTEMPTS_WINDOW_MS = 60_000
FORWARDED_MAX = 32
AGENT_CHARS_MAX = 60  # of a User-Agent in the audit trail
RECHECK_EVERY_MS = 1_000
OWN_SITES = frozenset({b"same-origin", b"none"})  # Sec-Fetch-Site of this server's page and of a typed address

Headers = Iterable[tuple[bytes, bytes]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Names:
    """The host names of this server and the proxies that it trusts. Raises `ConfigInvalid`."""

    public_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for host in self.public_hosts:
            if not HOST_NAME.match(host):
                raise ConfigInvalid(
                    f"public host {host[:80]!r}: write the bare name, as in chat.example.org", key="public_hosts"
                )
        self.networks()

    def networks(self) -> tuple[Network, ...]:
        found = []
        for proxy in self.trusted_proxies:
            try:
                found.append(ipaddress.ip_network(proxy, strict=False))
            except ValueError as error:
                raise ConfigInvalid(
                    f"trusted proxy {proxy[:80]!r}: write an address or a network, as in 10.0.0.0/8",
                    key="trusted_proxies",
                ) from error
        return tuple(found)


class Guard:
    """Each check raises the error of the request, or returns if the request may pass."""

    def __init__(self, keyring: Keyring, logins: Logins, clock: Clock, names: Names) -> None:
        self._keyring = keyring
        self._logins = logins
        self._attempts = Allowance(clock, ATTEMPTS_WINDOW_MS)
        known = "|".join(re.escape(name) for name in (*LOOPBACK_NAMES, *names.public_hosts))
        self._hosts = re.compile(rf"({known})(:\d{{1,5}})?\Z".encode(), re.IGNORECASE)
        self._proxies = names.networks()

    # --- host and origin

    def check_host(self, headers: Headers) -> str:
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._hosts.match(hosts[0]):
            named = hosts[0].decode("latin-1")[:80] if hosts else ""
            raise errors.HostNotAllowed(f"this server is not {named!r}" if named else "the request names no host")
        return hosts[0].decode("latin-1")

    def check_query(self, query: bytes) -> None:
        if not query:
            return
        names = {name.lower() for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)}
        if names & TOKEN_FIELDS:
            raise errors.TokenInUrl("the URL carries a token")

    def check_origin(self, scope: Any) -> bool:  # noqa: ANN401 - an ASGI scope
        """Whether the request names an origin, which must be this server's own. Raises `OriginNotAllowed`."""
        headers, host = scope["headers"], self.check_host(scope["headers"]).lower()
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        # An untrusted proxy may use TLS without this server's knowledge. If TLS is known, only that origin is accepted.
        own = {f"https://{host}"} if self.is_secure(scope) else {f"http://{host}", f"https://{host}"}
        if len(origins) > 1 or (origins and origins[0].lower() not in own):
            raise errors.OriginNotAllowed(f"{origins[0][:80]!r} is not an origin of this server")
        sites = {value for name, value in headers if name == b"sec-fetch-site"}
        if sites - OWN_SITES:
            raise errors.OriginNotAllowed("a page of another origin made this request")
        return bool(origins)

    def client_of(self, scope: Any) -> str:  # noqa: ANN401 - an ASGI scope
        """The address of the client: the last forwarded address that does not belong to a trusted proxy."""
        peer = scope["client"][0] if scope.get("client") else ""
        if not self.is_trusted(peer):
            return peer
        told = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        hops = [hop.strip() for hop in ",".join(told).split(",")][-FORWARDED_MAX:]
        return next((hop for hop in reversed(hops) if hop and not self.is_trusted(hop)), peer)

    def is_secure(self, scope: Any) -> bool:  # noqa: ANN401
        """Whether the browser used TLS, as far as the connection or a trusted proxy shows."""
        if scope.get("scheme") in {"https", "wss"}:
            return True
        peer = scope["client"][0] if scope.get("client") else ""
        told = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
        return self.is_trusted(peer) and told == [b"https"]

    def is_trusted(self, address: str) -> bool:
        """Whether the address belongs to a trusted proxy."""
        if not self._proxies:
            return False
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(known in network for network in self._proxies)

    # --- credentials

    async def identify(self, scope: Any) -> Caller | None:  # noqa: ANN401 - an ASGI scope
        """The caller, by header or cookie; None if the request has neither."""
        headers, client = scope["headers"], self.client_of(scope)
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) > 1:
            raise errors.AuthRequired("the request has several Authorization headers")
        if given and given[0]:
            scheme, _, secret = given[0].partition(b" ")
            return await self.by_secret(secret.strip().decode("latin-1") if scheme.lower() == b"bearer" else "", client)
        cookie = self.cookie_of(scope)
        return await self._by_cookie(cookie) if cookie else None

    async def _by_cookie(self, cookie: str, *, used: bool = True) -> Caller:
        """Raises `LoginEnded`, also if the token of the login is no longer valid."""
        login = await self._logins.read(cookie, used=used)
        try:
            return Caller(await self._keyring.by_id(login.token), cookie)
        except errors.AuthRequired as error:
            raise errors.LoginEnded(f"this login is over: {error}") from error

    def cookie_name(self, scope: Any) -> str:  # noqa: ANN401
        return cookie_name(self.check_host(scope["headers"]), secure=self.is_secure(scope))

    def cookie_of(self, scope: Any) -> str:  # noqa: ANN401
        """This server's cookie in the request; empty if there is none."""
        return read_cookie(scope["headers"], self.cookie_name(scope))

    def is_operator(self, headers: Headers) -> bool:
        """Whether the request carries the operator's own token. A wrong token is not counted."""
        given = [value for name, value in headers if name == b"authorization"]
        scheme, _, secret = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return scheme.lower() == b"bearer" and self._keyring.is_operator(secret.strip().decode("latin-1"))

    async def by_secret(self, secret: str, client: str) -> Caller:
        """Raises `AuthRequired`, and `TooManyAttempts` after too many wrong tokens."""
        found = await self._keyring.by_secret(secret)
        if found is None:
            self.failed(client)
            raise errors.AuthRequired("the token is not the right one")
        return Caller(found)

    def by_code(self, code: str, client: str) -> Caller:
        """The operator, by a one-time code. Raises `AuthRequired` and `TooManyAttempts`."""
        if not self._logins.take_code(code):
            self.failed(client)
            raise errors.AuthRequired("the code is not good, or not any more; start `holdfast up` again or use a token")
        return Caller(OPERATOR)

    def actor_of(self, scope: Any) -> By:  # noqa: ANN401 - an ASGI scope
        """The caller of a request for the audit trail; ANONYMOUS if it has no valid token."""
        told = next((value for name, value in scope["headers"] if name == b"user-agent"), b"")
        origin = f"http {self.client_of(scope)} {short(told.decode('latin-1'), AGENT_CHARS_MAX)}".strip()
        caller = scope.get("caller")
        return caller.as_actor(origin) if isinstance(caller, Caller) else replace(ANONYMOUS, origin=origin)

    async def recheck(self, caller: Caller) -> None:
        """Raises `AuthRequired` if the caller's token was revoked or its login has ended."""
        if caller.cookie:
            await self._by_cookie(caller.cookie, used=False)
        else:
            await self._keyring.by_id(caller.token.id)

    async def note_use(self, caller: Caller) -> None:
        """Count a frame of an open connection as a use of its login. Raises `LoginEnded`."""
        if caller.cookie:
            await self._logins.read(caller.cookie)

    async def until_over(self, caller: Caller) -> errors.AuthRequired:
        """Wait until the caller's token or login ends. Returns the error to close its connections with."""
        with self._logins.watching(caller.cookie) as ended:
            while True:
                await is_set_within(ended, RECHECK_EVERY_MS)  # another process may have ended the login
                try:
                    await self.recheck(caller)
                except errors.AuthRequired as error:
                    return error
                except StoreUnavailable:
                    continue  # no process can revoke a token while the store is unavailable

    def failed(self, client: str) -> None:
        """Count one wrong token or code. Raises `TooManyAttempts`."""
        wait_ms = self._attempts.wait_ms(client, 1, ATTEMPTS_MAX)
        self._attempts.use(client, 1)
        if wait_ms:
            raise errors.TooManyAttempts(f"{ATTEMPTS_MAX} wrong tokens within a minute", retry_after_ms=wait_ms)
        log.warning("auth.refused", client=client)

    def check_cookie_use(self, caller: Caller, scope: Any) -> None:  # noqa: ANN401
        """A cookie request that changes data must come from this server's page.

        Raises `CsrfTokenMissing` and `OriginNotAllowed`.
        """
        if not caller.cookie:
            return
        if scope["method"] not in SAFE:
            given = [value.decode("latin-1") for name, value in scope["headers"] if name == CSRF_HEADER]
            self._logins.check_csrf(caller.cookie, given[0] if len(given) == 1 else "")
        if not self.check_origin(scope) and scope["method"] not in SAFE:
            raise errors.OriginNotAllowed("the request came with a cookie and names no origin")
