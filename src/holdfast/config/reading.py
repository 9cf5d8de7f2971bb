"""Reads holdfast.toml into frozen policies, or raises one error that says what to change."""

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct, field, structs

from holdfast.config.secrets import literal_secret, located, refuse_duplicates, refuse_literal
from holdfast.config.tables import SHARING_AGENT, SHARING_PERSON, AgentTable, ServerTable
from holdfast.config.wording import not_toml, translated, wrong
from holdfast.inbox.access import check_allowed, check_allowed_chat, check_operator
from holdfast.inbox.address import agent_name
from holdfast.kernel.errors import AllowlistNotImmutable, ConfigInvalid, InvalidName
from holdfast.turns.policy import AgentPolicy

FILE = "holdfast.toml"
FILE_BYTES_MAX = 1_000_000
INSTRUCTIONS_BYTES_MAX = 256 * 1024
TOP = ("server", "agents")
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
PERSON = re.compile(r"[\w.-]+", re.ASCII)  # the plain name of a person, as set by `holdfast link`


class Config(Struct, frozen=True, kw_only=True):
    """`agents` is None without a file, and with a file that has only [server]: then every valid name is an agent."""

    file: Path | None = None
    agents: Mapping[str, AgentPolicy] | None = None
    server: ServerTable = field(default_factory=ServerTable)

    @property
    def message_bytes_max(self) -> int:
        """The largest message that any agent accepts."""
        policies = self.agents.values() if self.agents is not None else (AgentPolicy(),)
        return max(policy.limits.message_bytes_max for policy in policies)

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the configuration start from."""
        return self.file.parent if self.file is not None else Path()


def load_config(file: Path | None) -> Config:
    """Raises `ConfigInvalid` and `AllowlistNotImmutable`."""
    if file is None:
        return Config()
    try:
        with file.open("rb") as opened:
            raw = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigInvalid(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigInvalid(f"{file} is larger than {FILE_BYTES_MAX} bytes; shorten it", file=str(file))
    return parse_config(raw, file)


def parse_config(raw: bytes, file: Path) -> Config:
    """Raises `ConfigInvalid` and `AllowlistNotImmutable`. Reads only the instruction files that the text names."""
    tables = _toml(raw, file)
    literal = literal_secret(tables)
    if literal is not None:
        raise refuse_literal(file, literal)
    for key in tables:
        if key not in TOP:
            meant = next(iter(difflib.get_close_matches(key, TOP, n=1)), "")
            fix = f"unknown key; {f'did you mean {meant}? ' if meant else ''}use [server] and [agents.NAME]"
            raise wrong(file, key, tables[key], fix)
    server = _server(file, tables.get("server", {}))
    if tables and "agents" not in tables:
        return Config(file=file, server=server)  # setting only a port leaves every agent available
    agents = tables.get("agents")
    if not isinstance(agents, dict) or not agents:
        raise ConfigInvalid(f"{file} does not list any agent; add a table [agents.main]", file=str(file))
    _check_folders(file, agents)
    read = {name: _agent(file, name, table) for name, table in agents.items()}
    refuse_duplicates(file, {name: policy.channels for name, policy in read.items()})
    return Config(file=file, agents=read, server=server)


def _toml(raw: bytes, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise not_toml(file, raw, error) from error


def _check_folders(file: Path, agents: dict[str, object]) -> None:
    """Each agent has a folder, and some file systems do not distinguish Ada from ada."""
    seen: dict[str, str] = {}
    for name in agents:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise wrong(
                file, f"agents.{name}", name, f"the name differs from {other} only in case; choose another name"
            )


def _server(file: Path, table: object) -> ServerTable:
    if not isinstance(table, dict):
        raise wrong(file, "server", table, "it must be a table, [server]")
    try:
        read = msgspec.convert(table, ServerTable, strict=True)
    except msgspec.ValidationError as error:
        raise translated(file, "server", table, ServerTable, str(error)) from error
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


def _agent(file: Path, name: str, table: object) -> AgentPolicy:
    key = f"agents.{name}"
    _check_name(file, key, name, "agent")
    if not isinstance(table, dict):
        raise wrong(file, key, table, f"it must be a table, [{key}]")
    if not isinstance(table.get("model", ""), str | dict):
        fix = 'it must be a name such as "openai:gpt-5.2" or "practice", or a table'
        raise wrong(file, f"{key}.model", table["model"], fix)
    try:
        read = msgspec.convert(table, AgentTable, strict=True)
    except msgspec.ValidationError as error:
        raise translated(file, key, table, AgentTable, str(error)) from error
    _check_memory(file, key, read)
    for kind in ("memory", "channels", "mcp"):
        for one in getattr(read, kind) or {}:
            _check_name(file, f"{key}.{kind}.{one}", one, kind)
    _check_shares(file, key, read)
    _check_zone(file, key, read.expiry.time_zone)
    _check_people(file, key, read)
    return _with_files(file, key, read).policy()


def _check_name(file: Path, key: str, name: str, what: str) -> None:
    try:
        agent_name(name, what=what)
    except InvalidName as error:
        raise wrong(file, key, name, f"{error}. {error.hint}") from error


def _check_memory(file: Path, key: str, read: AgentTable) -> None:
    if read.sharing not in (SHARING_PERSON, SHARING_AGENT):
        fix = 'it must be "person" (show each person their own memories) or "agent" (show everyone all memories)'
        raise wrong(file, f"{key}.memory.sharing", read.sharing, fix)
    for name, table in (read.memory or {}).items():
        if name != "sharing" and not isinstance(table, dict):
            raise wrong(file, f"{key}.memory.{name}", table, f"it must be a table, [{key}.memory.{name}]")


def _check_shares(file: Path, key: str, read: AgentTable) -> None:
    shares = read.compression
    if shares.soft >= shares.hard:
        raise wrong(file, f"{key}.compression.soft", shares.soft, f"it must be below hard, which is {shares.hard}")
    if shares.keep >= shares.hard:
        raise wrong(file, f"{key}.compression.keep", shares.keep, f"it must be below hard, which is {shares.hard}")


def _check_zone(file: Path, key: str, name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # unknown, not a name, or a folder of zones
        fix = "the time zone is unknown; use a name such as Europe/Berlin or UTC"
        raise wrong(file, f"{key}.expiry.time_zone", name, fix) from error


def _check_people(file: Path, key: str, read: AgentTable) -> None:
    """People are identified by ids that cannot be transferred to another account."""
    approvers = {one for one in read.approval.approvers if not PERSON.fullmatch(one)}
    lists = (
        ("access.allow", read.access.allow, check_allowed),
        ("access.allow_chats", read.access.allow_chats, check_allowed_chat),
        ("access.operators", read.access.operators, check_operator),
        ("approval.approvers", approvers, check_allowed),
    )
    for inner, entries, check in lists:
        for entry in sorted(entries):
            try:
                check(entry)
            except AllowlistNotImmutable as error:
                what = f"{file}: {key}.{inner}: {error}"
                raise AllowlistNotImmutable(what, file=str(file), key=f"{key}.{inner}") from error


def _with_files(file: Path, key: str, read: AgentTable) -> AgentTable:
    """The table with the text of its instructions file, and with paths relative to the configuration's folder."""
    if isinstance(read.model, dict) and isinstance(read.model.get("api_key_file"), str) and read.model["api_key_file"]:
        path = str(located(file, read.model["api_key_file"]))
        read = structs.replace(read, model={**read.model, "api_key_file": path})
    if read.instructions_file is None:
        return read
    if read.instructions:
        fix = "`instructions` is set as well; keep one of the two"
        raise wrong(file, f"{key}.instructions_file", read.instructions_file, fix)
    try:
        text = _read_text(located(file, read.instructions_file))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: an unknown home folder
        why = getattr(error, "strerror", None) or str(error)
        fix = f"it cannot be read from {file.parent.resolve()}: {why}"
        raise wrong(file, f"{key}.instructions_file", read.instructions_file, fix) from error
    return structs.replace(read, instructions=text)


def _read_text(path: Path) -> str:
    """Raises `OSError`, and `ValueError` for a file that is too large or not UTF-8."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")
    with path.open("rb") as opened:
        raw = opened.read(INSTRUCTIONS_BYTES_MAX + 1)
    if len(raw) > INSTRUCTIONS_BYTES_MAX:
        raise ValueError(f"it is larger than {INSTRUCTIONS_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error
