"""The table [agents.NAME.memory.hindsight] of holdfast.toml, checked before anything is sent anywhere.

Rule 1: an unknown key is refused with the keys that exist; an error names the key, its value and what would be right.
Rule 2: the address is http or https, without credentials in it, and never one that machines answer about themselves
        (link-local and metadata addresses): a memory service is not there, and what is there has secrets.
Rule 3: the key is read from the environment, never from the file, and is in no text that this package writes.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from holdfast.core.errors import ConfigInvalid

_METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_METADATA_NETWORKS = tuple(ipaddress.ip_network(text) for text in ("100.100.100.200/32", "fd00:ec2::254/128"))
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # what may stand in a header


class HindsightSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    url: str
    bank: str = "{agent}"
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    max_wait_s: Annotated[float, Meta(gt=0, le=86_400)] = 300
    api_key_env: str | None = None
    recall_budget: Literal["low", "mid", "high"] = "low"
    recall_max_tokens: Annotated[int, Meta(ge=64, le=100_000)] = 2_048
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 20  # one request
    settle_s: Annotated[float, Meta(gt=0, le=600)] = 60  # one delivery, from sending it to knowing that it is kept


def read_settings(table: Mapping[str, object]) -> HindsightSettings:
    """Raises `ConfigInvalid`."""
    known = HindsightSettings.__struct_fields__
    unknown = [key for key in table if key not in known]
    if unknown:
        raise ConfigInvalid(f"hindsight: {unknown[0]!r} is no setting; there are {', '.join(known)}", key=unknown[0])
    try:
        settings = msgspec.convert(dict(table), HindsightSettings, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(table, str(error)) from error
    _check_url(settings.url)
    return settings


def read_key(settings: HindsightSettings, environment: Mapping[str, str]) -> str | None:
    """The API key, or None where none is set up. Raises `ConfigInvalid`, which never holds the key."""
    name = settings.api_key_env
    if name is None:
        return None
    if not _ENVIRONMENT_NAME.match(name):
        what = "it must be the name of an environment variable, not the key itself"
        raise ConfigInvalid(f"hindsight.api_key_env: {what}", key="api_key_env")
    value = environment.get(name, "").strip()
    if not value:
        raise ConfigInvalid(f"hindsight.api_key_env: the environment has no {name}; set it to the API key", key=name)
    if not _PRINTABLE.match(value):
        raise ConfigInvalid(f"hindsight.api_key_env: {name} has characters that no API key has", key=name)
    return value


def _translated(table: Mapping[str, object], message: str) -> ConfigInvalid:
    """msgspec's sentence with the key and the value it is about."""
    found = _PLACE.match(message)
    what, key = (found["what"], found["path"] or "") if found else (message, "")
    if key:
        return ConfigInvalid(f"hindsight.{key} is {table.get(key)!r}: {what}", key=key)
    return ConfigInvalid(f"hindsight: {what}; url is the one setting that must be there", key="url")


# --- the address -----------------------------------------------------------------------------------


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong_url(url, f"it is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong_url(url, "it must start with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ConfigInvalid("hindsight.url: it must hold no user and no password; use api_key_env", key="url")
    if parts.query or parts.fragment or not _PRINTABLE.match(url):
        raise _wrong_url(url, "it must be a plain address, without ?, # or blanks")
    if port == 0:
        raise _wrong_url(url, "there is no port 0")
    if _is_forbidden(host):
        what = "(provider_url_forbidden) machines answer about themselves there; no memory service does"
        raise _wrong_url(url, what)


def _is_forbidden(host: str) -> bool:
    name = host.rstrip(".").lower()
    if name in _METADATA_HOSTS:
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return _is_forbidden_number(name)
    return _is_forbidden_address(address)


def _is_forbidden_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    inner = getattr(address, "ipv4_mapped", None) or address
    if inner.is_link_local or inner.is_multicast or inner.is_unspecified:
        return True
    return any(inner in network for network in _METADATA_NETWORKS if network.version == inner.version)


def _is_forbidden_number(name: str) -> bool:
    """Resolvers take an IPv4 address as one number too, and in hexadecimal or octal parts; people do not."""
    return bool(re.fullmatch(r"(0x[0-9a-f]+|\d+)(\.(0x[0-9a-f]+|\d+)){0,3}", name))


def _wrong_url(url: str, what: str) -> ConfigInvalid:
    return ConfigInvalid(f"hindsight.url is {url!r}: {what}", key="url")
