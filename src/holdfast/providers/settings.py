"""A provider's own table of holdfast.toml, checked before anything is sent anywhere.

Rule 1: an unknown key is refused with the keys that exist; an error names the key, its value and what would be right.
Rule 2: an address is http or https, without credentials in it, and never one where machines answer about themselves
        (link-local and metadata addresses): no memory service is there, and what is there has secrets.
Rule 3: a key is read from the environment, never from the file, and is in no text that is written anywhere.
Rule 4: a key travels over https, or over http to this machine, unless `send_key_over_plain_http` allows more.
"""

import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from holdfast.kernel.errors import ConfigInvalid, PlainHttpRefused
from holdfast.kernel.urls import FORBIDDEN, READABLE, is_forbidden, leaks_key, wrong_url

T = TypeVar("T", bound=msgspec.Struct)
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_MISSING = re.compile(r"required field `(\w+)`")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # what may stand in a header


def read_table(provider: str, table: Mapping[str, object], shape: type[T], hints: Mapping[str, str] | None = None) -> T:
    """The table as the provider's struct. `hints` are better sentences for some keys. Raises `ConfigInvalid`."""
    known = shape.__struct_fields__
    unknown = next((key for key in table if key not in known), None)
    if unknown is not None:
        raise ConfigInvalid(f"{provider}: {unknown!r} is no setting; there are {', '.join(known)}", key=unknown)
    try:
        return msgspec.convert(dict(table), shape, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(provider, table, str(error), hints or {}) from error


def _translated(provider: str, table: Mapping[str, object], message: str, hints: Mapping[str, str]) -> ConfigInvalid:
    """msgspec's sentence with the key and the value it is about."""
    found = _PLACE.match(message)
    what, key = (found["what"], (found["path"] or "").split("[")[0]) if found else (message, "")
    if key:
        return ConfigInvalid(f"{provider}.{key} is {table.get(key)!r}: {hints.get(key, what)}", key=key)
    missing = _MISSING.search(what)
    if missing:
        return ConfigInvalid(f"{provider}.{missing[1]} is missing; it must be there", key=missing[1])
    return ConfigInvalid(f"{provider}: {what}", key="")


def read_key(provider: str, variable: str | None, environment: Mapping[str, str]) -> str | None:
    """The API key, or None where none is set up. Raises `ConfigInvalid`, which never holds the key."""
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
    return value


def check_way(provider: str, url: str, key: str | None, *, allowed: bool) -> None:
    """Raises `PlainHttpRefused` when the key would leave this machine in the clear and nobody allowed it."""
    if key is not None and leaks_key(url) and not allowed:
        raise PlainHttpRefused(f"{provider}.url is {url!r}: {READABLE}", key="url")


def check_url(provider: str, url: str) -> None:
    """Raises `ConfigInvalid`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong_url(provider, url, f"it is no address: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigInvalid(f"{provider}.url: it must hold no user and no password; use api_key_env", key="url")
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong_url(provider, url, "it must start with http:// or https:// and a host")
    if parts.query or parts.fragment or not _PRINTABLE.match(url):
        raise _wrong_url(provider, url, "it must be a plain address, without ?, # or blanks")
    if port == 0:
        raise _wrong_url(provider, url, "there is no port 0")
    if is_forbidden(host):
        raise _wrong_url(provider, url, FORBIDDEN)


def _wrong_url(provider: str, url: str, what: str) -> ConfigInvalid:
    return wrong_url(f"{provider}.url", repr(url), what, key="url")
