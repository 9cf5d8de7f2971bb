"""Secrets and URLs of a channel's own table of holdfast.toml. kernel/settings_table.py reads the table itself.

Rule 1: a secret is read from the environment or from a file of its own, never from holdfast.toml. No error repeats the
        value of a key that may hold a secret by mistake.
Rule 2: a secret is sent over https, or over http to this machine, unless `send_key_over_plain_http` allows more.
"""

import re
from pathlib import Path
from typing import NoReturn

from holdfast.inbox.channel import ChannelSetup
from holdfast.kernel import settings_table
from holdfast.kernel.errors import ConfigInvalid

SECRET_BYTES_MAX = 4096
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")  # the characters allowed in a header


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
        key, where, value = env_key, variable, _from_environment(setup, variable, env_key)
    elif file is not None:
        key, where, value = file_key, "the file", _from_file(setup, file, file_key)
    else:
        what = f"neither {env_key} nor {file_key} is set; one of them must name the place of the {name}"
        raise ConfigInvalid(f"{setup.name}: {what}", key=env_key)
    if len(value) > SECRET_BYTES_MAX or not _PRINTABLE.match(value):
        invalid(setup, key, f"{where} is too long or holds blanks or characters that no secret has")
    return value


def _from_environment(setup: ChannelSetup, variable: str, key: str) -> str:
    if not _VARIABLE.match(variable):
        invalid(setup, key, "it must be the name of an environment variable, not the secret itself")
    value = setup.environment.get(variable, "").strip()
    if not value:
        invalid(setup, key, f"the environment has no {variable}; set that variable to the secret")
    return value


def _from_file(setup: ChannelSetup, file: str, key: str) -> str:
    try:
        with (setup.folder / Path(file).expanduser()).open("rb") as opened:
            value = opened.read(SECRET_BYTES_MAX + 1).decode("ascii", "replace").strip()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: an unknown home directory
        why = f"it names no readable file, seen from {setup.folder.resolve()} ({type(error).__name__})"
        raise ConfigInvalid(f"{setup.name}.{key}: {why}", key=key) from None  # the value may be the secret itself
    if not value:
        invalid(setup, key, "the file is empty; write the secret into it")
    return value


def check_url(setup: ChannelSetup, url: str, *, key: str = "api_url", plain_http: bool = False) -> str:
    """The URL without a slash at its end. Raises `ConfigInvalid`."""
    where = f"{setup.name}.{key}"
    settings_table.check_url(where, url, key=key, instead="the settings for secrets")
    settings_table.check_key_url(where, url, key=key, allowed=plain_http)
    return url.rstrip("/")
