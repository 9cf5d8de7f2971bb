"""Checks configured URLs: http or https, no credentials, no link-local, multicast or cloud metadata address.

Only the text is checked; no name is resolved. The operator answers for names that resolve to a forbidden address.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from holdfast.kernel.errors import ConfigInvalid, ProviderUrlForbidden

METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
METADATA_ADDRESSES = frozenset({"100.100.100.200", "fd00:ec2::254"})
FORBIDDEN = "machines answer about themselves there; no service of yours does"
READABLE = "over plain http the key could be read on its way to another machine"
_NUMBERS = re.compile(r"(0x[0-9a-f]+|\d+)(\.(0x[0-9a-f]+|\d+)){0,3}")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # valid in a request line


def has_credentials(url: str) -> bool:
    """Whether a URL contains a user or a password; such a URL is never shown."""
    return "@" in url.partition("://")[2].partition("/")[0]


def fault_of_url(url: str) -> str:
    """The fault of a URL; empty if there is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return f"it is no address: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "it must start with http:// or https:// and a host"
    if parts.query or parts.fragment or not _PRINTABLE.match(url):
        return "it must be a plain address, without ?, # or blanks"
    if port == 0:
        return "there is no port 0"
    if is_forbidden(host):
        return FORBIDDEN
    return ""


def wrong_url(where: str, shown: str, fault: str, *, key: str) -> ConfigInvalid:
    """The error for the fault of a URL."""
    kind = ProviderUrlForbidden if fault == FORBIDDEN else ConfigInvalid
    return kind(f"{where} is {shown}: {fault}", key=key)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine. A name other than localhost may resolve to any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def leaks_key(url: str) -> bool:
    """Whether a key sent to this URL leaves the machine unencrypted."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.hostname or "")


def needs_no_proxy(url: str) -> bool:
    """Whether a URL is plain http on this machine. A proxy from the environment would read the requests."""
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def is_forbidden(host: str) -> bool:
    """Whether a host is forbidden. An IPv4 address as one number, or with hexadecimal or octal parts, always is."""
    name = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name in METADATA_HOSTS or bool(_NUMBERS.fullmatch(name))
    inner = getattr(address, "ipv4_mapped", None) or address
    return inner.is_link_local or inner.is_multicast or inner.is_unspecified or str(inner) in METADATA_ADDRESSES
