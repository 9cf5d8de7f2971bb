"""The cookie of a browser's login: its name, its attributes, and how a request is searched for it.

Rule 1: a browser sends a cookie to every port of a host, so the name contains the port that the browser asked. Two
        servers on one machine neither read nor overwrite each other's login.
Rule 2: over TLS the name begins with `__Host-`: the browser then refuses a cookie that was set without TLS or by
        another host of the domain. Without TLS no browser accepts such a name.
Rule 3: a request that has the cookie twice with different values is refused: another site set one of them.
"""

from collections.abc import Iterable

from holdfast.api.errors import LoginEnded

PORTS = {True: "443", False: "80"}  # the default ports with and without TLS, which a browser omits from the host


def cookie_name(host: str, *, secure: bool) -> str:
    """The name of the cookie for a request's host, such as `127.0.0.1:7420` or `[::1]:7420`."""
    port = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
    return f"{'__Host-' if secure else ''}holdfast_{port or PORTS[secure]}"


def read_cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """The value of the cookie; empty if there is none. Raises `LoginEnded` for different values."""
    lines = [value.decode("latin-1") for key, value in headers if key == b"cookie"]
    pairs = [pair.strip().partition("=") for line in lines for pair in line.split(";")]
    found = {value.strip('"') for key, _, value in pairs if key == name and value}
    if len(found) > 1:
        raise LoginEnded(f"the request has several cookies of the name {name}")
    return found.pop() if found else ""


def set_cookie(name: str, value: str, lasts_ms: int) -> str:
    """The header that sets the cookie for the lifetime of the login."""
    secure = "; Secure" if name.startswith("__Host-") else ""
    return f"{name}={value}; Max-Age={max(0, lasts_ms) // 1000}; Path=/; HttpOnly; SameSite=Strict{secure}"


def clear_cookie(name: str) -> str:
    return set_cookie(name, "", 0)
