"""The API key of a provider that talks to a server.

Rule 1: an API key is read from the environment, never from holdfast.toml, and appears in no message.
Rule 2: an API key travels over https, or over http to this machine, unless `send_key_over_plain_http` allows more.
"""

import re
from collections.abc import Mapping

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import check_key_url, check_url

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # allowed in a header


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
