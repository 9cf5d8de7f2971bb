"""References to secrets: holdfast.toml names where a secret is and never contains it.

Rule 1: a key that ends in token, secret, password or api_key is refused; `<key>_env` and `<key>_file` name the
        environment variable or the file with the secret. No error repeats the refused value.
Rule 2: one bot account serves one agent. Two channels with the same token would take each other's messages.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.kernel.errors import ConfigInvalid
from holdfast.turns.policy import AgentPolicy

BYTES_MAX = 64 * 1024
OTHERS = 0o077
_LITERAL = re.compile(r"(?:.*_)?(?:token|secret|password|api_key)", re.IGNORECASE | re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"(?P<name>.*(?:token|secret|password|api_key))_(?P<how>env|file)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFact:
    """A secret that the configuration refers to, and whether it was found. Never its value."""

    key: str
    where: str
    found: bool


def literal_secrets(table: Mapping[str, object], key: str = "") -> Iterator[str]:
    """The keys of the secrets that are written into the file."""
    for name, value in table.items():
        inner = f"{key}.{name}" if key else name
        below = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping)]
        if not below and _LITERAL.fullmatch(name):
            yield inner
        for one in below:
            yield from literal_secrets(one, inner)


def described(file: Path, how: str, name: str) -> str:
    """The location of a secret, in words. A name that no variable can have may be the secret itself and is hidden."""
    if how == "file":
        return f"the file {located(file, name)}"
    return f"the environment variable {name if _VARIABLE.fullmatch(name) else '(not shown)'}"


def refuse_literal(file: Path, key: str) -> ConfigInvalid:
    last = key.rpartition(".")[2]
    fix = f"secrets are not allowed in the file; write {last}_env = ... or {last}_file = ..."
    return ConfigInvalid(f"{file}: {key[:400]} = (not shown): {fix}", file=str(file), key=key)


def references(table: Mapping[str, object], key: str = "") -> Iterator[tuple[str, str, str]]:
    """Every reference to a secret: its key, `env` or `file`, and the name."""
    for name, value in table.items():
        inner = f"{key}.{name}" if key else name
        if isinstance(value, Mapping):
            yield from references(value, inner)
        elif isinstance(value, str) and (found := _REFERENCE.fullmatch(name)):
            yield inner, found["how"], value


def secret_tables(policy: AgentPolicy) -> Mapping[str, Mapping[str, object]]:
    """The tables of an agent that may refer to secrets."""
    return {
        "model": policy.model,
        "models": policy.models,
        "memory": policy.memory or {},
        "channels": policy.channels,
        "mcp": policy.mcp,
    }


def secret_variables(agents: Mapping[str, AgentPolicy]) -> frozenset[str]:
    """Every environment variable that holds a secret or is passed to an MCP program."""
    found: set[str] = set()
    for policy in agents.values():
        found |= {name for _, how, name in references(secret_tables(policy)) if how == "env"}
        for table in policy.mcp.values():
            given = table.get("env")
            found |= {name for name in given if isinstance(name, str)} if isinstance(given, list) else set()
    return frozenset(found)


def secret_files(file: Path, agents: Mapping[str, AgentPolicy]) -> tuple[Path, ...]:
    """Every file that holds a secret of the configuration `file`."""
    named = (one for policy in agents.values() for one in references(secret_tables(policy)))
    return tuple(located(file, name) for _, how, name in named if how == "file")


def duplicates(file: Path, channels: Mapping[str, Mapping[str, Mapping[str, object]]]) -> Iterator[ConfigInvalid]:
    """An error for each channel that refers to the same token as another one of its kind."""
    named = [one for agent, tables in channels.items() for one in references(tables, f"agents.{agent}.channels")]
    tokens = ((key, how, name) for key, how, name in named if key.endswith(f"token_{how}"))
    yield from equal_tokens(
        file, {key: f"{how} {located(file, name) if how == 'file' else name}" for key, how, name in tokens}
    )


def equal_tokens(file: Path | None, keys: Mapping[str, str]) -> Iterator[ConfigInvalid]:
    """An error for each reference with the same value as another one of the same kind of channel."""
    seen: dict[tuple[str, str], str] = {}
    for key, value in keys.items():
        kind = key.split(".")[3]
        other = seen.setdefault((kind, value), key)
        if other != key:
            is_same = key.rpartition(".")[0] == other.rpartition(".")[0]
            each = ", and a bot account serves one agent; create a bot for each agent"
            fix = "; these two keys need different tokens" if is_same else each
            place = {} if file is None else {"file": str(file)}
            what = f"duplicate token: {other} has the same token{fix}"
            yield ConfigInvalid(": ".join((*place.values(), key, what)), **place, key=key)


def located(file: Path, name: str) -> Path:
    """The path of a file that the configuration names, relative to the configuration's folder."""
    path = Path(name)
    with suppress(RuntimeError):  # an unknown home folder: no file will be found
        path = path.expanduser()
    return file.parent / path


def open_mode(path: Path) -> int:
    """The mode of a file that other users may read or write; 0 if they may not."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
    return mode if os.name == "posix" and mode & OTHERS else 0


def read_reference(file: Path, how: str, name: str, environment: Mapping[str, str]) -> str | None:
    """The secret; None if it is missing or empty."""
    if how == "env":
        return environment.get(name, "").strip() or None
    try:
        with located(file, name).open("rb") as opened:
            return opened.read(BYTES_MAX).decode("utf-8", "replace").strip() or None
    except (OSError, ValueError):
        return None
