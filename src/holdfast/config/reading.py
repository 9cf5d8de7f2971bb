"""Reads holdfast.toml into frozen policies, and says everything that has to be changed in it."""

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from holdfast.config.agent_table import check_name, read_agent
from holdfast.config.faults import mended, together, without
from holdfast.config.inheritance import (
    DEFAULTS,
    MODELS,
    Models,
    Table,
    check_inheritable,
    check_model_table,
    check_named_models,
    merged,
    origins_of,
    spare_models,
    table_of,
)
from holdfast.config.lines import lines_of
from holdfast.config.origins import Origins
from holdfast.config.secrets import duplicates, literal_secrets, refuse_literal
from holdfast.config.tables import ServerTable
from holdfast.config.wording import not_toml, translated, wrong
from holdfast.kernel.errors import ConfigInvalid, HoldfastError
from holdfast.turns.policy import AgentPolicy

FILE = "holdfast.toml"
FILE_BYTES_MAX = 1_000_000
TOP = ("server", DEFAULTS, MODELS, "agents")
USE = "use [server], [defaults], [models.NAME] and [agents.NAME]"
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)


class Config(Struct, frozen=True, kw_only=True):
    """`agents` is None without a file, and with a file that has only [server]: then every valid name is an agent."""

    file: Path | None = None
    agents: Mapping[str, AgentPolicy] | None = None
    server: ServerTable = field(default_factory=ServerTable)
    models: Mapping[str, Mapping[str, Any]] = {}  # the tables [models.NAME]
    tables: Mapping[str, Mapping[str, Any]] = {}  # what each agent has, as the file and its [defaults] say
    origins: Origins = field(default_factory=Origins)

    @property
    def message_bytes_max(self) -> int:
        """The largest message that any agent accepts."""
        policies = self.agents.values() if self.agents is not None else (AgentPolicy(),)
        return max(policy.limits.message_bytes_max for policy in policies)

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the configuration start from."""
        return self.file.parent if self.file is not None else Path()


class Reading(NamedTuple):
    """What a file says without its wrong settings, and an error for each of those."""

    config: Config
    problems: tuple[HoldfastError, ...]


def load_config(file: Path | None) -> Config:
    """Raises `ConfigInvalid` and `AllowlistNotImmutable`; the error has all further ones in `others`."""
    return faultless(load_reading(file))


def load_reading(file: Path | None) -> Reading:
    """Raises `ConfigInvalid` if the file cannot be read as TOML at all."""
    if file is None:
        return Reading(Config(), ())
    try:
        with file.open("rb") as opened:
            raw = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigInvalid(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigInvalid(f"{file} is larger than {FILE_BYTES_MAX} bytes; shorten it", file=str(file))
    return read_config(raw, file)


def parse_config(raw: bytes, file: Path) -> Config:
    """Raises as `load_config` does. Reads only the instruction files that the text names."""
    return faultless(read_config(raw, file))


def faultless(found: Reading) -> Config:
    """Raises the first error, with the others in `others`."""
    if found.problems:
        raise together(list(found.problems))
    return found.config


def read_config(raw: bytes, file: Path) -> Reading:
    """Raises `ConfigInvalid` for a text that is not TOML."""
    tables = _toml(raw, file)
    problems: list[HoldfastError] = []
    for key in literal_secrets(tables):
        problems.append(refuse_literal(file, key))
        rest = without(tables, key)
        tables = tables if rest is None else rest
    problems += [_unknown(file, key, tables[key]) for key in tables if key not in TOP]
    server = _server(file, tables.get("server", {}), problems)
    lines = lines_of(raw.decode())
    if tables and "agents" not in tables and not {DEFAULTS, MODELS} & set(tables):
        # setting only a port leaves every agent available
        return Reading(Config(file=file, server=server, origins=Origins(lines=lines)), tuple(problems))
    agents = tables.get("agents")
    if not isinstance(agents, dict) or not agents:
        problems.append(ConfigInvalid(f"{file} does not list any agent; add a table [agents.main]", file=str(file)))
        agents = {}
    models = _models(file, tables.get(MODELS, {}), problems)
    below = Below(_defaults(file, tables.get(DEFAULTS, {}), models, problems), models)
    problems += _folders(file, agents)
    made = [one for name, table in agents.items() if (one := _agent(file, name, table, below, problems)) is not None]
    policies = {one.name: one.policy for one in made}
    problems += duplicates(file, {name: policy.channels for name, policy in policies.items()})
    keys = {key: place for one in made for key, place in one.origins.items()}
    return Reading(
        Config(
            file=file,
            agents=policies,
            server=server,
            models=models,
            tables={one.name: one.table for one in made},
            origins=Origins(keys=keys, lines=lines),
        ),
        tuple(problems),
    )


def _toml(raw: bytes, file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise not_toml(file, raw, error) from error


def _unknown(file: Path, key: str, value: object) -> ConfigInvalid:
    meant = next(iter(difflib.get_close_matches(key, TOP, n=1)), "")
    return wrong(file, key, value, f"unknown key; {f'did you mean {meant}? ' if meant else ''}{USE}")


def _folders(file: Path, agents: Mapping[str, object]) -> list[HoldfastError]:
    """Each agent has a folder, and some file systems do not distinguish Ada from ada."""
    seen: dict[str, str] = {}
    others = ((name, seen.setdefault(name.casefold(), name)) for name in agents)
    return [
        wrong(file, f"agents.{name}", name, f"the name differs from {other} only in case; choose another name")
        for name, other in others
        if other != name
    ]


def _models(file: Path, tables: object, problems: list[HoldfastError]) -> dict[str, dict[str, Any]]:
    if not isinstance(tables, dict):
        problems.append(wrong(file, MODELS, tables, f"it must have a table for each model, [{MODELS}.NAME]"))
        return {}
    made = {}
    for name, table in tables.items():
        try:
            made[name] = check_model_table(file, name, table)
        except ConfigInvalid as error:
            problems.append(error)
            made[name] = {"name": "practice"}  # agents that refer to it are not wrong
    return {
        name: dict(mended(table, f"{MODELS}.{name}", partial(_check_spares, file, name, made), problems)[1])
        for name, table in made.items()
    }


def _check_spares(file: Path, name: str, models: Models, table: Table) -> None:
    check_named_models(file, f"{MODELS}.{name}", {key: one for key, one in table.items() if key != "name"}, models)


def _defaults(file: Path, table: object, models: Models, problems: list[HoldfastError]) -> Table:
    """The table [defaults] without its wrong settings, so that no agent reports them again."""
    if not isinstance(table, dict):
        problems.append(wrong(file, DEFAULTS, table, f"it must be a table, [{DEFAULTS}]"))
        return {}

    def read(wanted: Table) -> None:
        check_inheritable(file, wanted)
        check_named_models(file, f"{DEFAULTS}.model", wanted.get("model"), models)
        read_agent(file, DEFAULTS, wanted)

    _, kept = mended(table, DEFAULTS, read, problems)
    return kept


class Below(NamedTuple):
    """What every agent may take over."""

    defaults: Table
    models: Models


class ReadAgent(NamedTuple):
    name: str
    policy: AgentPolicy
    table: Table
    origins: Mapping[str, str]


def _agent(file: Path, name: str, own: object, below: Below, problems: list[HoldfastError]) -> ReadAgent | None:
    key = f"agents.{name}"
    try:
        check_name(file, key, name, "agent")
        if not isinstance(own, dict):
            raise wrong(file, key, own, f"it must be a table, [{key}]")
    except ConfigInvalid as error:
        problems.append(error)
        return None
    _, own = mended(
        own, key, lambda table: check_named_models(file, f"{key}.model", table.get("model"), below.models), problems
    )
    settings = merged(name, own, below.defaults, below.models)
    read, table = mended(table_of(settings), key, partial(read_agent, file, key), problems)
    if read is None:
        return None
    origins = {f"{key}.{MODELS}": MODELS, **origins_of(key, settings)}
    spare = spare_models(read.model, below.models) if isinstance(read.model, dict) else {}
    return ReadAgent(name, replace(read.policy(), models=spare), table, origins)


def _server(file: Path, table: object, problems: list[HoldfastError]) -> ServerTable:
    if not isinstance(table, dict):
        problems.append(wrong(file, "server", table, "it must be a table, [server]"))
        return ServerTable()
    found, _ = mended(table, "server", partial(_read_server, file), problems)
    return found or ServerTable()


def _read_server(file: Path, table: Table) -> ServerTable:
    try:
        read = msgspec.convert(table, ServerTable, strict=True)
    except msgspec.ValidationError as error:
        raise translated(file, "server", dict(table), ServerTable, str(error)) from error
    try:
        ipaddress.ip_address("127.0.0.1" if read.host.lower() == "localhost" else read.host.strip("[]"))
    except ValueError as error:
        fix = "use an IP address such as 127.0.0.1, because a name may resolve to another machine"
        raise wrong(file, "server.host", read.host, fix) from error
    for host in read.public_hosts:
        if not HOST_NAME.fullmatch(host):
            raise wrong(file, "server.public_hosts", host, "use the host name alone, such as chat.example.org")
    for proxy in read.trusted_proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError as error:
            fix = "use an IP address or a network such as 10.0.0.0/8"
            raise wrong(file, "server.trusted_proxies", proxy, fix) from error
    fault = read.limits.fault()
    if fault is not None:
        raise wrong(file, f"server.limits.{fault[0]}", getattr(read.limits, fault[0]), fault[1])
    return read
