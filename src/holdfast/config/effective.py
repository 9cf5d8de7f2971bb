"""The settings in force, with the place that each comes from. What may be a secret is not shown."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holdfast.config.reading import Config
from holdfast.config.tables import AgentTable

DEFAULT = "default"
ANY = "NAME"  # of an agent, if there is no file
HIDDEN = "(not shown)"
OPEN_TABLES = frozenset({"model", "memory", "channels", "mcp"})  # their owners check them, so any key may occur
_SECRET_KEY = re.compile(r"(?:.*[_-])?(?:token|secret|password|passwd|credential|key)s?", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(?=.*\d)[^\s/]{20,}", re.DOTALL)
_ASSIGNED = re.compile(r"-*(?P<name>[\w-]+)[=:].*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """`origin` is the key under which the file has it, or `default`; `line` is its line in the file."""

    owner: str  # the table: server, or agents.NAME
    key: str  # from the top of the file
    value: Any
    origin: str
    line: int | None = None


def effective_settings(config: Config) -> Iterator[EffectiveSetting]:
    """Every setting of the server, then of each agent. Without a file there is one agent, called NAME."""
    server = msgspec.to_builtins(config.server)
    for key, value in _leaves("server", server):
        yield _setting(config, "server", key, value, written=config.origins.wrote(key) is not None)
    agents: Mapping[str, Mapping[str, Any]] = {ANY: {}} if config.agents is None else config.tables
    for name, table in agents.items():
        yield from _agent(config, f"agents.{name}", table)


def _agent(config: Config, key: str, table: Mapping[str, Any]) -> Iterator[EffectiveSetting]:
    written = dict(_leaves(key, table))
    known = {f"{key}.{inner}": value for inner, value in defaults_of(AgentTable).items()}
    for place, value in known.items():
        if place in written:
            yield _setting(config, key, place, written.pop(place), written=True)
            continue
        below = [one for one in written if one.startswith(f"{place}.")]
        for one in below:
            yield _setting(config, key, one, written.pop(one), written=True)
        if not below:
            yield _setting(config, key, place, value, written=False)
    for place, value in written.items():
        yield _setting(config, key, place, value, written=True)


def _setting(config: Config, owner: str, key: str, value: object, *, written: bool) -> EffectiveSetting:
    if not written:
        return EffectiveSetting(owner=owner, key=key, value=value, origin=DEFAULT)
    seen = value if owner == "server" else redacted(key.removeprefix(f"{owner}."), value)
    origins = config.origins
    return EffectiveSetting(owner=owner, key=key, value=seen, origin=origins.of(key), line=origins.line(key))


def plain_settings(config: Config) -> Iterator[tuple[str, str, Any]]:
    """The table, the key in it and the value of every setting of the server, and of every one that an agent has."""
    for key, value in _leaves("", msgspec.to_builtins(config.server)):
        yield "server", key.removeprefix("."), value
    for name, table in config.tables.items():
        for key, value in _leaves("", table):
            yield f"agents.{name}", key.removeprefix("."), value


def _leaves(key: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(f"{key}.{name}", value)
        else:
            yield f"{key}.{name}", value


def defaults_of(shape: type[Struct], prefix: str = "") -> dict[str, Any]:
    """The default of every setting of a table and of the tables inside it."""
    found: dict[str, Any] = {}
    for one in msgspec.structs.fields(shape):
        default = one.default_factory() if one.default_factory is not msgspec.NODEFAULT else one.default
        if isinstance(default, Struct):
            found |= defaults_of(type(default), f"{prefix}{one.name}.")
        else:
            found[f"{prefix}{one.name}"] = msgspec.to_builtins(default)
    return found


def redacted(key: str, value: Any) -> Any:  # noqa: ANN401 - any TOML value
    """The value of an agent's setting without what may be a secret, such as a token in the arguments of a program."""
    parts = key.split(".")
    if parts[0] not in OPEN_TABLES:
        return value
    if isinstance(value, Mapping):
        return {name: redacted(f"{key}.{name}", one) for name, one in value.items()}
    if isinstance(value, list):
        before = ["", *map(str, value)]
        return [HIDDEN if _names_secret(last) else redacted(key, one) for last, one in zip(before, value, strict=False)]
    if not isinstance(value, str):
        return value
    return HIDDEN if _may_be_secret(parts, value) else _without_password(value)


def _names_secret(argument: str) -> bool:
    """Whether the value after a program's option is a secret, as after `--token`."""
    return argument.startswith("-") and _SECRET_KEY.fullmatch(argument.lstrip("-")) is not None


def _may_be_secret(parts: list[str], value: str) -> bool:
    last = parts[-1]
    if last.endswith(("_env", "_file")):
        return last.endswith("_env") and not value.isidentifier()
    assigned = _ASSIGNED.fullmatch(value)
    if _SECRET_KEY.fullmatch(last) or (assigned is not None and _SECRET_KEY.fullmatch(assigned["name"])):
        return True
    return parts[0] != "model" and _SECRET_VALUE.fullmatch(value) is not None


def _without_password(value: str) -> str:
    try:
        url = urlsplit(value)
    except ValueError:
        return HIDDEN
    if "@" not in url.netloc:
        return value
    return url._replace(netloc=f"{HIDDEN}@{url.netloc.rpartition('@')[2]}").geturl()
