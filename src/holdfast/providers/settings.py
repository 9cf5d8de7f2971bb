"""The API key of a provider that talks to a server.

Rule 1: an API key is read from the environment, never from holdfast.toml, and appears in no message.
Rule 2: an API key travels over https, or over http to this machine, unless `send_key_over_plain_http` allows more.
"""

import re
from collections.abc import Mapping
from typing import Protocol

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import check_key_url, check_url

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # allowed in a header


class ServerSettings(Protocol):
    """The settings of a provider that talks to a server."""

    @property
    def url(self) -> str: ...
    @property
    def api_key_env(self) -> str | None: ...
    @property
    def send_key_over_plain_http(self) -> bool: ...


def read_key(provider: str, settings: ServerSettings, environment: Mapping[str, str]) -> str | None:
    """The API key, or None if none is configured. Checks the URL first.

    Raises `ConfigInvalid`, which never holds the key, and `PlainHttpRefused`.
    """
    where, variable = f"{provider}.url", settings.api_key_env
    check_url(where, settings.url, key="url", instead="api_key_env")
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
    check_key_url(where, settings.url, key="url", allowed=settings.send_key_over_plain_http)
    return value
