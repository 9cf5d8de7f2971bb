"""The configuration: `holdfast.toml`, read once, validated, passed on as frozen values.

Without a file every valid name is an agent with the defaults; with one, only those listed are (D38). Every error
names the file, the key, its value and what would be right.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta, Struct, field

from holdfast.core.compress import Thresholds
from holdfast.core.errors import ConfigInvalid, InvalidName
from holdfast.core.inbound import Limits
from holdfast.core.key import agent_name
from holdfast.core.policy import AgentPolicy, Arrivals, ExpiryPolicy, TurnPolicy
from holdfast.core.recall import RecallPolicy

FILE = "holdfast.toml"
FILE_BYTES_MAX = 1_000_000
Share = Annotated[float, Meta(gt=0, le=1)]
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`\Z", re.DOTALL)


class Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file. The defaults are those of core/policy.py and stand there only."""


class Compression(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    soft: Share = Thresholds().soft
    hard: Share = Thresholds().hard
    keep: Annotated[float, Meta(ge=0, lt=1)] = Thresholds().keep


class Turns(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    arrivals: Arrivals = Arrivals.QUEUE
    turn_attempts_max: Annotated[int, Meta(ge=1, le=100)] = TurnPolicy().turn_attempts_max
    model_wait_s: Annotated[float, Meta(gt=0, le=3_600)] = TurnPolicy().model_wait_ms / 1000


class Intake(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    message_bytes: Annotated[int, Meta(ge=1, le=16 * 1024 * 1024)] = Limits().message_bytes_max
    mailbox_depth: Annotated[int, Meta(ge=1, le=1_000_000)] = Limits().mailbox_depth_max
    messages_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = Limits().window_messages_max


class Recalling(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    enabled: bool = True
    budget_ms: Annotated[int, Meta(ge=1, le=60_000)] = RecallPolicy().budget_ms
    limit: Annotated[int, Meta(ge=1, le=100)] = RecallPolicy().limit
    chars_max: Annotated[int, Meta(ge=100, le=1_000_000)] = RecallPolicy().chars_max
    private_in_groups: bool = False


class Expiry(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    idle_minutes: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    daily_at: Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = None
    time_zone: str = ExpiryPolicy().time_zone


class AgentTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    model: Literal["practice"] = "practice"
    instructions: str = ""
    context_tokens: Annotated[int, Meta(ge=256, le=100_000_000)] = Thresholds().context_tokens
    compression: Compression = field(default_factory=Compression)
    turns: Turns = field(default_factory=Turns)
    limits: Intake = field(default_factory=Intake)
    recall: Recalling = field(default_factory=Recalling)
    expiry: Expiry = field(default_factory=Expiry)
    memory: dict[str, dict[str, Any]] | None = None  # each provider checks its own table

    def policy(self) -> AgentPolicy:
        return AgentPolicy(
            instructions=self.instructions,
            turn=TurnPolicy(
                arrivals=self.turns.arrivals,
                turn_attempts_max=self.turns.turn_attempts_max,
                model_wait_ms=round(self.turns.model_wait_s * 1000),
            ),
            thresholds=Thresholds(
                context_tokens=self.context_tokens,
                soft=self.compression.soft,
                hard=self.compression.hard,
                keep=self.compression.keep,
            ),
            limits=Limits(
                message_bytes_max=self.limits.message_bytes,
                mailbox_depth_max=self.limits.mailbox_depth,
                window_messages_max=self.limits.messages_per_minute,
            ),
            recall=RecallPolicy(
                enabled=self.recall.enabled,
                budget_ms=self.recall.budget_ms,
                limit=self.recall.limit,
                chars_max=self.recall.chars_max,
                private_in_groups=self.recall.private_in_groups,
            ),
            expiry=ExpiryPolicy(
                idle_minutes=self.expiry.idle_minutes,
                daily_at=self.expiry.daily_at,
                time_zone=self.expiry.time_zone,
            ),
            memory=self.memory,
        )


class Config(Struct, frozen=True, kw_only=True):
    """`agents` is None without a file: then every valid name is an agent."""

    file: Path | None = None
    agents: Mapping[str, AgentPolicy] | None = None

    @property
    def message_bytes_max(self) -> int:
        """The largest message that any agent takes."""
        policies = self.agents.values() if self.agents is not None else (AgentPolicy(),)
        return max(policy.limits.message_bytes_max for policy in policies)


def load_config(file: Path | None) -> Config:
    """Raises `ConfigInvalid`."""
    if file is None:
        return Config()
    try:
        with file.open("rb") as opened:
            raw = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigInvalid(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigInvalid(f"{file} is larger than {FILE_BYTES_MAX} bytes", file=str(file))
    return parse_config(raw, file)


def parse_config(raw: bytes, file: Path) -> Config:
    try:
        tables = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, numbers of thousands of digits
        raise ConfigInvalid(f"{file} is not TOML in UTF-8: {error}", file=str(file)) from error
    for key in tables:
        if key != "agents":
            raise _wrong(file, key, tables[key], "unknown; the only table is [agents.NAME]")
    agents = tables.get("agents")
    if not isinstance(agents, dict) or not agents:
        raise ConfigInvalid(f"{file} lists no agent; add a table [agents.main]", file=str(file))
    return Config(file=file, agents={name: _agent(file, name, table) for name, table in agents.items()})


def _agent(file: Path, name: str, table: object) -> AgentPolicy:
    key = f"agents.{name}"
    try:
        agent_name(name)
    except InvalidName as error:
        raise _wrong(file, key, name, f"{error}. {error.hint}") from error
    if not isinstance(table, dict):
        raise _wrong(file, key, table, f"it must be a table, [{key}]")
    model = table.get("model", "practice")
    if model != "practice":
        raise _wrong(file, f"{key}.model", model, 'this release has only "practice", the offline model')
    try:
        read = msgspec.convert(table, AgentTable, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(file, key, table, str(error)) from error
    shares = read.compression
    if shares.soft >= shares.hard:
        raise _wrong(file, f"{key}.compression.soft", shares.soft, f"it must be below hard, which is {shares.hard}")
    if shares.keep >= shares.hard:
        raise _wrong(file, f"{key}.compression.keep", shares.keep, f"it must be below hard, which is {shares.hard}")
    _check_zone(file, key, read.expiry.time_zone)
    return read.policy()


def _check_zone(file: Path, key: str, name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # unknown; not a name at all; a folder of zones
        fix = "there is no such time zone; write one as in Europe/Berlin, or UTC"
        raise _wrong(file, f"{key}.expiry.time_zone", name, fix) from error


def _translated(file: Path, key: str, table: dict[str, Any], message: str) -> ConfigInvalid:
    """msgspec's sentence with the key and the value it is about."""
    found = _PLACE.match(message)
    what, path = (found["what"], found["path"]) if found else (message, None)
    unknown = _UNKNOWN.match(what)
    parts = [part for part in (path or "").split(".") if part]
    if unknown:
        parts.append(unknown["name"])
    value: Any = table
    for part in parts:
        value = value.get(part) if isinstance(value, dict) else value
    if unknown:
        fix = f"unknown; {_known(parts)}"
    elif parts == ["turns", "arrivals"]:
        fix = f"it must be one of {', '.join(one.value for one in Arrivals)}"
    else:
        fix = what[:1].lower() + what[1:]
    return _wrong(file, ".".join([key, *parts]), value, fix)


def _known(parts: list[str]) -> str:
    """The keys that the table of a misspelt one has."""
    shapes: dict[str, type[Table]] = {
        "compression": Compression,
        "turns": Turns,
        "limits": Intake,
        "recall": Recalling,
        "expiry": Expiry,
    }
    shape = shapes.get(parts[0], AgentTable) if len(parts) > 1 else AgentTable
    return f"known are {', '.join(shape.__struct_fields__)}"


def _wrong(file: Path, key: str, value: object, fix: str) -> ConfigInvalid:
    shown = msgspec.json.encode(value, enc_hook=str).decode()
    return ConfigInvalid(f"{file}: {key} = {shown[:80]}: {fix}", file=str(file), key=key)
