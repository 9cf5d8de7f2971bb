"""The cookie of a browser's login: its name, its attributes, and how it is read from a request.

Rule 1: a browser sends a cookie to every port of a host, so the name says the port that the browser asked. Two servers
        on one machine neither read nor overwrite each other's login.
Rule 2: over TLS the name begins with `__Host-`: the browser then refuses a cookie that came without TLS or from another
        host of the domain. Without TLS no browser takes such a name.
Rule 3: a request that names the cookie twice with different values is refused: somebody else set one of them.
"""

from collections.abc import Iterable

from holdfast.api.errors import LoginEnded

PORTS = {True: "443", False: "80"}  # that a browser leaves out of the host, with and without TLS


def cookie_name(host: str, *, secure: bool) -> str:
    """The name for the host that a request names, as in `127.0.0.1:7420` or `[::1]:7420`."""
    port = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
    return f"{'__Host-' if secure else ''}holdfast_{port or PORTS[secure]}"


def read_cookie(headers: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """The value of the cookie; empty when there is none. Raises `LoginEnded` for several."""
    lines = [value.decode("latin-1") for key, value in headers if key == b"cookie"]
    pairs = [pair.strip().partition("=") for line in lines for pair in line.split(";")]
    found = {value.strip('"') for key, _, value in pairs if key == name and value}
    if len(found) > 1:
        raise LoginEnded(f"the request has several cookies of the name {name}")
    return found.pop() if found else ""


def set_cookie(name: str, value: str, lasts_ms: int) -> str:
    """The header that keeps a login for as long as it lasts."""
    secure = "; Secure" if name.startswith("__Host-") else ""
    return f"{name}={value}; Max-Age={max(0, lasts_ms) // 1000}; Path=/; HttpOnly; SameSite=Strict{secure}"


def clear_cookie(name: str) -> str:
    return set_cookie(name, "", 0)
