"""Reads a table of holdfast.toml into a struct, and checks its URLs. Pure.

Rule 1: an unknown key is refused with the closest known key, or with all of them; an error names the key, its value and
        the remedy.
Rule 2: an unknown key that looks like a secret is refused with the settings for secrets. No error shows the value of a
        key that may hold a secret by mistake.
Rule 3: a URL has no credentials, and is not one of the forbidden addresses of urls.py.
"""

import difflib
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from holdfast.kernel.errors import ConfigInvalid, PlainHttpRefused
from holdfast.kernel.urls import READABLE, fault_of_url, has_credentials, leaks_key, wrong_url

T = TypeVar("T", bound=msgspec.Struct)
SECRETS = frozenset({"api_key", "key", "token", "secret", "password"})
SHOWN_CHARS_MAX = 80
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


def check_url(where: str, url: str, *, key: str, instead: str) -> None:
    """Check a URL; `instead` names the setting for credentials. Raises `ConfigInvalid` and `ProviderUrlForbidden`."""
    if has_credentials(url):
        raise ConfigInvalid(f"{where}: it must hold no user and no password; use {instead}", key=key)
    if fault := fault_of_url(url):
        raise wrong_url(where, shown(url), fault, key=key)


def check_key_url(where: str, url: str, *, key: str, allowed: bool) -> None:
    """Raises `PlainHttpRefused` if a key would leave this machine unencrypted and `allowed` is false."""
    if leaks_key(url) and not allowed:
        raise PlainHttpRefused(f"{where} is {shown(url)}: {READABLE}", key=key)


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
