"""Where the operator may send us: http or https, no credentials, never where machines answer about themselves.

Pure text: nothing is resolved. A name that resolves to a forbidden address is the operator's own doing.
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
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # what may stand in a request line


def has_credentials(url: str) -> bool:
    """Whether a user or a password stands in it; such an address is shown to nobody."""
    return "@" in url.partition("://")[2].partition("/")[0]


def fault_of_url(url: str) -> str:
    """What is wrong with an address; empty when nothing is."""
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
    """The error for a fault of an address."""
    kind = ProviderUrlForbidden if fault == FORBIDDEN else ConfigInvalid
    return kind(f"{where} is {shown}: {fault}", key=key)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself. A name beside localhost may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def leaks_key(url: str) -> bool:
    """Whether a key that is sent there leaves this machine in the clear."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.hostname or "")


def needs_no_proxy(url: str) -> bool:
    """Whether an address is plain http of this machine. A proxy of the environment would read what is sent there."""
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def is_forbidden(host: str) -> bool:
    """An IPv4 address in one number, or in hexadecimal or octal parts, is refused whatever it means."""
    name = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name in METADATA_HOSTS or bool(_NUMBERS.fullmatch(name))
    inner = getattr(address, "ipv4_mapped", None) or address
    return inner.is_link_local or inner.is_multicast or inner.is_unspecified or str(inner) in METADATA_ADDRESSES
