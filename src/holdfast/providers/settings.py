"""A provider's own table of holdfast.toml, checked before any request is sent.

Rule 1: an unknown key is refused with the list of known keys; an error names the key, its value and the remedy.
Rule 2: a URL is http or https, without credentials, and never link-local or a cloud metadata address: no memory service
        runs there, and such an address serves secrets of the machine.
Rule 3: an API key is read from the environment, never from the file, and appears in no message.
Rule 4: an API key travels over https, or over http to this machine, unless `send_key_over_plain_http` allows more.
"""

import re
from collections.abc import Mapping
from typing import Protocol, TypeVar

import msgspec

from holdfast.kernel.errors import ConfigInvalid, PlainHttpRefused
from holdfast.kernel.urls import READABLE, fault_of_url, has_credentials, leaks_key, wrong_url

T = TypeVar("T", bound=msgspec.Struct)
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_MISSING = re.compile(r"required field `(\w+)`")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # allowed in a header


def read_table(provider: str, table: Mapping[str, object], shape: type[T], hints: Mapping[str, str] | None = None) -> T:
    """The table as the provider's struct. `hints` replace msgspec's message for some keys. Raises `ConfigInvalid`."""
    known = shape.__struct_fields__
    unknown = next((key for key in table if key not in known), None)
    if unknown is not None:
        raise ConfigInvalid(
            f"{provider}: {unknown!r} is not a setting; the settings are {', '.join(known)}", key=unknown
        )
    try:
        return msgspec.convert(dict(table), shape, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(provider, table, str(error), hints or {}) from error


def _translated(provider: str, table: Mapping[str, object], message: str, hints: Mapping[str, str]) -> ConfigInvalid:
    """msgspec's message, with the key and its value."""
    found = _PLACE.match(message)
    what, key = (found["what"], (found["path"] or "").split("[")[0]) if found else (message, "")
    if key:
        return ConfigInvalid(f"{provider}.{key} is {table.get(key)!r}: {hints.get(key, what)}", key=key)
    missing = _MISSING.search(what)
    if missing:
        return ConfigInvalid(f"{provider}.{missing[1]} is missing; set it", key=missing[1])
    return ConfigInvalid(f"{provider}: {what}", key="")


class ServerSettings(Protocol):
    """The settings of a provider that talks to a server."""

    @property
    def url(self) -> str: ...
    @property
    def api_key_env(self) -> str | None: ...
    @property
    def send_key_over_plain_http(self) -> bool: ...


def read_key(provider: str, settings: ServerSettings, environment: Mapping[str, str]) -> str | None:
    """The API key, or None if none is configured. Raises `ConfigInvalid`, which never holds the key, and
    `PlainHttpRefused` if the key would leave this machine unencrypted without the operator's permission."""
    variable = settings.api_key_env
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
    if leaks_key(settings.url) and not settings.send_key_over_plain_http:
        raise PlainHttpRefused(f"{provider}.url is {settings.url!r}: {READABLE}", key="url")
    return value


def check_url(provider: str, url: str) -> None:
    """Raises `ConfigInvalid`."""
    if has_credentials(url):
        raise ConfigInvalid(f"{provider}.url: it must hold no user and no password; use api_key_env", key="url")
    if fault := fault_of_url(url):
        raise wrong_url(f"{provider}.url", repr(url), fault, key="url")
