"""Reads and checks a channel's own table of holdfast.toml before anything is sent anywhere.

Rule 1: an unknown key is refused with the list of known keys; an error names the key and a correct value.
Rule 2: a secret is read from the environment or from a file of its own, never from holdfast.toml. No error repeats the
        value of a key that may hold a secret by mistake.
Rule 3: a secret is sent over https, or over http to this machine, unless `send_key_over_plain_http` allows more.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from holdfast.inbox.channel import ChannelSetup
from holdfast.kernel.errors import ConfigInvalid, PlainHttpRefused
from holdfast.kernel.urls import FORBIDDEN, READABLE, is_forbidden, leaks_key, wrong_url

T = TypeVar("T", bound=msgspec.Struct)
SECRET_BYTES_MAX = 4096
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_MISSING = re.compile(r"required field `(\w+)`")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # the characters allowed in a header
_SECRETS = re.compile(r"token|secret|password|api_key", re.IGNORECASE)


def read_settings(setup: ChannelSetup, shape: type[T], hints: Mapping[str, str] | None = None) -> T:
    """The table as the channel's struct. `hints` replace msgspec's texts for some keys. Raises `ConfigInvalid`."""
    known = shape.__struct_fields__
    unknown = next((key for key in setup.settings if key not in known), None)
    if unknown is not None:
        raise _unknown(setup.name, unknown, known)
    try:
        return msgspec.convert(dict(setup.settings), shape, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(setup, str(error), hints or {}) from error


def _unknown(channel: str, key: str, known: tuple[str, ...]) -> ConfigInvalid:
    if f"{key}_env" in known:
        what = f"a secret must not be in holdfast.toml; name its place with {key}_env or {key}_file"
        return ConfigInvalid(f"{channel}.{key}: {what}", key=key)
    return ConfigInvalid(f"{channel}: {key!r} is no setting; the settings are {', '.join(known)}", key=key)


def _translated(setup: ChannelSetup, message: str, hints: Mapping[str, str]) -> ConfigInvalid:
    """msgspec's message with the key and, unless that may be a secret, its value."""
    found = _PLACE.match(message)
    what, key = (found["what"], (found["path"] or "").split("[")[0]) if found else (message, "")
    if key:
        value = "" if _SECRETS.search(key) else f" is {setup.settings.get(key)!r}"
        return ConfigInvalid(f"{setup.name}.{key}{value}: {hints.get(key, what)}", key=key)
    missing = _MISSING.search(what)
    if missing:
        return ConfigInvalid(f"{setup.name}.{missing[1]} is missing; set it", key=missing[1])
    return ConfigInvalid(f"{setup.name}: {what}", key="")


def invalid(setup: ChannelSetup, key: str, what: str) -> NoReturn:
    raise ConfigInvalid(f"{setup.name}.{key}: {what}", key=key)


def check_unused(setup: ChannelSetup, table: object, keys: tuple[str, ...], what: str) -> None:
    """Refuse keys that the table's mode does not use."""
    for key in keys:
        if getattr(table, key) is not None:
            invalid(setup, key, what)


def read_secret(setup: ChannelSetup, variable: str | None, file: str | None, *, name: str = "token") -> str:
    """The secret named by `<name>_env` or `<name>_file`, exactly one of which is set. Raises `ConfigInvalid`."""
    env_key, file_key = f"{name}_env", f"{name}_file"
    if variable is not None and file is not None:
        raise ConfigInvalid(f"{setup.name}: {env_key} and {file_key} are both set; remove one", key=env_key)
    if variable is not None:
        return _from_environment(setup, variable, env_key)
    if file is not None:
        return _from_file(setup, file, file_key)
    what = f"neither {env_key} nor {file_key} is set; one of them must name the place of the {name}"
    raise ConfigInvalid(f"{setup.name}: {what}", key=env_key)


def _from_environment(setup: ChannelSetup, variable: str, key: str) -> str:
    if not _VARIABLE.match(variable):
        what = "it must be the name of an environment variable, not the secret itself"
        raise ConfigInvalid(f"{setup.name}.{key}: {what}", key=key)
    value = setup.environment.get(variable, "").strip()
    if not value:
        raise ConfigInvalid(
            f"{setup.name}.{key}: the environment has no {variable}; set that variable to the secret", key=key
        )
    return _checked(setup, value, key, variable)


def _from_file(setup: ChannelSetup, file: str, key: str) -> str:
    try:
        with (setup.folder / Path(file).expanduser()).open("rb") as opened:
            value = opened.read(SECRET_BYTES_MAX + 1).decode("ascii", "replace").strip()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: an unknown home directory
        why = f"it names no readable file, seen from {setup.folder.resolve()} ({type(error).__name__})"
        raise ConfigInvalid(f"{setup.name}.{key}: {why}", key=key) from None  # the value may be the secret itself
    if not value:
        raise ConfigInvalid(f"{setup.name}.{key}: the file is empty; write the secret into it", key=key)
    return _checked(setup, value, key, "the file")


def _checked(setup: ChannelSetup, value: str, key: str, where: str) -> str:
    if len(value) > SECRET_BYTES_MAX or not _PRINTABLE.match(value):
        raise ConfigInvalid(
            f"{setup.name}.{key}: {where} is too long or holds blanks or characters that no secret has", key=key
        )
    return value


def check_url(setup: ChannelSetup, url: str, *, key: str = "api_url", plain_http: bool = False) -> str:
    """The URL without a slash at its end. Raises `ConfigInvalid`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigInvalid(f"{setup.name}.{key} is no URL: {error}", key=key) from error
    if parts.username is not None or parts.password is not None:
        raise ConfigInvalid(f"{setup.name}.{key}: it must contain no user and no password", key=key)
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ConfigInvalid(f"{setup.name}.{key} is {url!r}: it must start with https:// and a host", key=key)
    if parts.query or parts.fragment or not _PRINTABLE.match(url):
        raise ConfigInvalid(f"{setup.name}.{key} is {url!r}: it must not contain ?, # or blanks", key=key)
    if is_forbidden(host):
        raise wrong_url(f"{setup.name}.{key}", repr(url), FORBIDDEN, key=key)
    if leaks_key(url) and not plain_http:
        raise PlainHttpRefused(f"{setup.name}.{key} is {url!r}: {READABLE}", key=key)
    return url.rstrip("/")
