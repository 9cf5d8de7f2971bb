"""The table [agents.NAME.memory.honcho] of holdfast.toml, checked before anything is sent anywhere.

Rule 1: an unknown key is refused with the keys that exist; an error names the key, its value and what would be right.
Rule 2: the url is http or https, without credentials, and never one where machines answer about themselves
        (link-local and metadata addresses): no Honcho is there, and what is there has secrets.
Rule 3: the key is read from the environment, never from the file, and is in no text that this package writes.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field

from holdfast.core.errors import ConfigInvalid
from holdfast.core.honcho_naming import ID, HonchoNames, Strategy

METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
METADATA_ADDRESSES = frozenset({"100.100.100.200", "fd00:ec2::254"})
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_NUMBERS = re.compile(r"(0x[0-9a-f]+|\d+)(\.(0x[0-9a-f]+|\d+)){0,3}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # what may stand in a header


class HonchoSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    url: str
    workspace: str = "holdfast"
    strategy: Strategy = Strategy.PER_SESSION
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    max_wait_s: Annotated[float, Meta(gt=0, le=86_400)] = 300
    api_key_env: str | None = None
    titles: dict[str, str] = field(default_factory=dict)
    peer_prefix: str = ""
    peers: dict[str, str] = field(default_factory=dict)
    runtime_peer_prefix: str = ""
    compat: bool = False
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 20

    def names(self) -> HonchoNames:
        return HonchoNames(
            workspace=self.workspace,
            strategy=self.strategy,
            prefix=self.peer_prefix,
            titles=tuple(sorted(self.titles.items())),
            peers=tuple(sorted(self.peers.items())),
            runtime_prefix=self.runtime_peer_prefix,
            compat=self.compat,
        )


def read_settings(table: Mapping[str, object]) -> HonchoSettings:
    """Raises `ConfigInvalid`."""
    known = HonchoSettings.__struct_fields__
    unknown = [key for key in table if key not in known]
    if unknown:
        raise ConfigInvalid(f"honcho: {unknown[0]!r} is no setting; there are {', '.join(known)}", key=unknown[0])
    try:
        settings = msgspec.convert(dict(table), HonchoSettings, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(table, str(error)) from error
    _check_url(settings.url)
    _check_names(settings)
    return settings


def read_key(settings: HonchoSettings, environment: Mapping[str, str]) -> str | None:
    """The API key, or None where none is set up. Raises `ConfigInvalid`, which never holds the key."""
    name = settings.api_key_env
    if name is None:
        return None
    if not _VARIABLE.match(name):
        what = "it must be the name of an environment variable, not the key itself"
        raise ConfigInvalid(f"honcho.api_key_env: {what}", key="api_key_env")
    value = environment.get(name, "").strip()
    if not value:
        raise ConfigInvalid(f"honcho.api_key_env: the environment has no {name}; set it to the API key", key=name)
    if not _PRINTABLE.match(value):
        raise ConfigInvalid(f"honcho.api_key_env: {name} has characters that no API key has", key=name)
    return value


def _translated(table: Mapping[str, object], message: str) -> ConfigInvalid:
    """msgspec's sentence with the key and the value it is about."""
    found = _PLACE.match(message)
    what, key = (found["what"], (found["path"] or "").split("[")[0]) if found else (message, "")
    if key == "strategy":
        what = f"it must be one of {', '.join(one.value for one in Strategy)}"
    if key:
        return ConfigInvalid(f"honcho.{key} is {table.get(key)!r}: {what}", key=key)
    return ConfigInvalid(f"honcho: {what}; url is the one setting that must be there", key="url")


def _check_names(settings: HonchoSettings) -> None:
    for key, value in (("workspace", settings.workspace), ("peer_prefix", settings.peer_prefix or "-")):
        if not ID.match(value) or len(value) > 64:
            what = "it must be 1 to 64 letters, digits, '_' and '-'"
            raise ConfigInvalid(f"honcho.{key} is {value!r}: {what}", key=key)
    for key, table in (("titles", settings.titles), ("peers", settings.peers)):
        for name, value in table.items():
            if not name or not ID.match(value):
                what = "it must map a name to letters, digits, '_' and '-'"
                raise ConfigInvalid(f"honcho.{key}: {name!r} is {value!r}: {what}", key=key)
    for key in ("peers", "runtime_peer_prefix"):
        if getattr(settings, key) and not settings.compat:
            raise ConfigInvalid(f"honcho.{key}: peers are named by hand only with compat = true", key=key)


# --- the url -----------------------------------------------------------------------------------------


def _check_url(url: str) -> None:
    try:
        split = urlsplit(url)
        host, port = split.hostname or "", split.port
    except ValueError as error:
        raise _wrong_url(url, f"it is no address: {error}") from error
    if split.username is not None or split.password is not None:
        raise ConfigInvalid("honcho.url: it must hold no user and no password; use api_key_env", key="url")
    if split.scheme not in ("http", "https") or not host or port == 0:
        raise _wrong_url(url, "it must start with http:// or https:// and a host")
    if split.query or split.fragment or not _PRINTABLE.match(url):
        raise _wrong_url(url, "it must be a plain address, without ?, # or blanks")
    if _is_forbidden(host.rstrip(".").lower()):
        raise _wrong_url(url, "(provider_url_forbidden) machines answer about themselves there; no Honcho does")


def _is_forbidden(host: str) -> bool:
    """An IPv4 address in one number, or in hexadecimal or octal parts, is refused whatever it means."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host in METADATA_HOSTS or bool(_NUMBERS.fullmatch(host))
    inner = getattr(address, "ipv4_mapped", None) or address
    return inner.is_link_local or inner.is_multicast or inner.is_unspecified or str(inner) in METADATA_ADDRESSES


def _wrong_url(url: str, what: str) -> ConfigInvalid:
    return ConfigInvalid(f"honcho.url is {url!r}: {what}", key="url")
