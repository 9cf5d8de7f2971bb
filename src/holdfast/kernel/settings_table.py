"""Reads a table of holdfast.toml into a struct, checks its URLs, and reads the API keys that it names.

Rule 1: an unknown key is refused with the closest known key, or with all of them; an error names the key, its value and
        the remedy.
Rule 2: an unknown key that looks like a secret is refused with the settings for secrets. No error shows the value of a
        key that may hold a secret by mistake.
Rule 3: a URL is http or https, has no credentials, and is no link-local, multicast or cloud metadata address. Only the
        text is checked; no name is resolved. The operator answers for names that resolve to a forbidden address.
Rule 4: an API key is read from the environment, never from holdfast.toml, and appears in no message. It travels over
        https, or over http to this machine, unless `send_key_over_plain_http` allows more.
"""

import difflib
import ipaddress
import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from holdfast.kernel.errors import ConfigInvalid, PlainHttpRefused, ProviderUrlForbidden

T = TypeVar("T", bound=msgspec.Struct)
SECRETS = frozenset({"api_key", "key", "token", "secret", "password"})
SHOWN_CHARS_MAX = 80
METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
METADATA_ADDRESSES = frozenset({"100.100.100.200", "fd00:ec2::254"})
FORBIDDEN = "machines answer about themselves there; no service of yours does"
READABLE = "over plain http the key could be read on its way to another machine"
_NUMBERS = re.compile(r"(0x[0-9a-f]+|\d+)(\.(0x[0-9a-f]+|\d+)){0,3}")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # valid in a request line and in a header
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_MISSING = re.compile(r"required field `(\w+)`")
_MAY_BE_SECRET = re.compile(r"(\A|_)token(_env|_file)?\Z|secret|password|api_key|env\Z|command")


def read_table(where: str, table: Mapping[str, object], shape: type[T], hints: Mapping[str, str] | None = None) -> T:
    """The table as a struct. `hints` replace msgspec's message for some keys. Raises `ConfigInvalid`."""
    unknown = next((key for key in table if key not in shape.__struct_fields__), None)
    if unknown is not None:
        raise _unknown(where, unknown, shape.__struct_fields__)
    try:
        return msgspec.convert(dict(table), shape, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(where, table, str(error), hints or {}) from error


def shown(value: object) -> str:
    """A value for an error message."""
    return repr(value)[:SHOWN_CHARS_MAX]


def suggestion(text: str, known: tuple[str, ...], what: str) -> str:
    """The known word closest to a misspelt one, or all of them."""
    near = difflib.get_close_matches(text, known, n=1)
    return f"did you mean {near[0]}?" if near else f"the {what} are {', '.join(known)}"


def _unknown(where: str, key: str, known: tuple[str, ...]) -> ConfigInvalid:
    places = [name for name in known if name in (f"{key}_env", f"{key}_file")]
    if key in SECRETS and not places:
        places = [name for name in known if name.endswith(("key_env", "key_file", "token_env"))]
    if places:
        what = f"a secret must not be in the configuration; name its place with {' or '.join(places)}"
        return ConfigInvalid(f"{where}.{key}: {what}", key=key)
    what = f"{where}.{key[:SHOWN_CHARS_MAX]} is not a setting"
    return ConfigInvalid(f"{what}; {suggestion(key, known, 'settings')}", key=key)


def _translated(where: str, table: Mapping[str, object], message: str, hints: Mapping[str, str]) -> ConfigInvalid:
    """Add the key and its value to msgspec's message."""
    found = _PLACE.match(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    key = path.partition("[")[0]
    if key:
        value = "" if _MAY_BE_SECRET.search(key) else f" is {shown(table.get(key))}"
        return ConfigInvalid(f"{where}.{path}{value}: {hints.get(key, what)}", key=key)
    missing = _MISSING.search(what)
    if missing:
        return ConfigInvalid(f"{where}.{missing[1]} is missing; set it", key=missing[1])
    return ConfigInvalid(f"{where}: {what}", key="")


# --- URLs ---------------------------------------------------------------------------------------------


def check_url(where: str, url: str, *, key: str, instead: str) -> None:
    """Check a URL; `instead` names the setting for credentials. Raises `ConfigInvalid` and `ProviderUrlForbidden`."""
    if has_credentials(url):
        raise ConfigInvalid(f"{where}: it must hold no user and no password; use {instead}", key=key)
    if fault := fault_of_url(url):
        raise wrong_url(where, shown(url), fault, key=key)


def check_key_url(where: str, url: str, *, key: str, allowed: bool) -> None:
    """Raises `PlainHttpRefused` if a key would leave this machine unencrypted and `allowed` is false."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or "") and not allowed:
        raise PlainHttpRefused(f"{where} is {shown(url)}: {READABLE}", key=key)


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


def read_key(
    provider: str, url: str, variable: str | None, environment: Mapping[str, str], *, plain_http: bool
) -> str | None:
    """The API key of `variable`, or None if none is configured. Checks the URL first.

    Raises `ConfigInvalid`, which never holds the key, and `PlainHttpRefused`.
    """
    where = f"{provider}.url"
    check_url(where, url, key="url", instead="api_key_env")
    if variable is None:
        return None
    if not _VARIABLE.match(variable):
        what = "it must be the name of an environment variable, not the key itself"
        raise ConfigInvalid(f"{provider}.api_key_env: {what}", key="api_key_env")
    value = environment.get(variable, "").strip()
    if not value:
        why = f"the environment has no {variable}; set it to the API key"
        raise ConfigInvalid(f"{provider}.api_key_env: {why}", key=variable)
    if not _PRINTABLE.match(value):
        raise ConfigInvalid(f"{provider}.api_key_env: {variable} has characters that no API key has", key=variable)
    check_key_url(where, url, key="url", allowed=plain_http)
    return value
