"""Policies: the operator's choices for arrivals during a turn, retries, expiry, groups, access and approvals."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.inbox.message import Limits
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.memory.notes import Capacity
from holdfast.memory.recall import RecallPolicy
from holdfast.outbox.post import OnDoubt
from holdfast.sessions.compression import Thresholds


class Arrivals(Enum):
    """The handling of a message that arrives while a turn runs. No message is ever dropped."""

    QUEUE = "queue"  # it waits for its own turn
    STEER = "steer"  # it joins the running turn at the next step
    INTERRUPT = "interrupt"  # it ends the running turn and gets its own
    COLLECT = "collect"  # it waits, and shares one turn with the other waiting messages


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPolicy:
    arrivals: Arrivals = Arrivals.QUEUE
    turn_attempts_max: int = 10  # after this many claims a turn visibly ends as failed (D11)
    model_attempts_max: int = 3  # for one request
    model_retries_max: int = 8  # for all requests of a turn together
    model_wait_ms: int = 120_000
    tool_wait_ms: int = 120_000
    steps_max: int = 40
    unattended_max: int = 12  # turns in a row without a human before mail is held (D12)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
_TIME_OF_DAY = re.compile(r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)", re.ASCII)


class SettingsTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of holdfast.toml; unknown keys are refused in every subclass."""


class ExpiryPolicy(SettingsTable, frozen=True, kw_only=True):
    """When an unused session ends. Without either setting it never does. Raises `ConfigInvalid`."""

    idle_minutes: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    daily_at: Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = None  # HH:MM, in the time zone
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.idle_minutes is not None and self.idle_minutes < 1:
            raise ConfigInvalid(f"idle_minutes = {self.idle_minutes}: it must be 1 or more", key="idle_minutes")
        if self.daily_at is not None and not _TIME_OF_DAY.fullmatch(self.daily_at):
            raise ConfigInvalid(
                f"daily_at = {self.daily_at[:80]!r}: it must be a time of day from 00:00 to 23:59, as in 04:00",
                key="daily_at",
            )

    @property
    def idle_ms(self) -> int | None:
        return None if self.idle_minutes is None else self.idle_minutes * MINUTE_MS

    @property
    def daily_ms(self) -> int | None:
        """The time from local midnight to the day's boundary, on a day without a clock change."""
        found = _TIME_OF_DAY.fullmatch(self.daily_at or "")
        return (int(found["hour"]) * 60 + int(found["minute"])) * MINUTE_MS if found else None


class Sharing(Enum):
    """Whether the members of a group or a thread share one session."""

    SHARED = "shared"  # all members talk to one session
    PER_USER = "per_user"  # each sender has their own session, as in Hermes


class GroupPolicy(SettingsTable, frozen=True, kw_only=True):
    """How an agent takes part in groups. Unaddressed messages are observed, not answered (D12)."""

    groups: Sharing = Sharing.SHARED
    threads: Sharing = Sharing.SHARED
    mention_only: bool = True  # answer only messages addressed to the agent; otherwise all messages
    observe: bool = True  # keep unaddressed messages as context


class Door(Enum):
    """The response to senders without access."""

    PAIR = "pair"  # refused, with instructions for asking the operator
    CLOSED = "closed"  # refused without a reply
    OPEN = "open"  # admitted


class AccessPolicy(SettingsTable, frozen=True, kw_only=True):
    """Who may talk to an agent over a chat platform. Principals are <channel>:<immutable id>."""

    door: Door = Door.PAIR
    allow: frozenset[str] = frozenset()
    group_door: Door = Door.CLOSED  # for group senders who have no access themselves
    allow_chats: frozenset[str] = frozenset()  # <channel>:<chat id>: all members of these groups may talk
    operators: frozenset[str] = frozenset()  # principals who may give every command, in every chat of the agent


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """The tool calls that wait for a human, and the length of the wait."""

    tools: frozenset[str] = frozenset()  # in addition to tools marked as dangerous; `*` means all
    approvers: frozenset[str] = frozenset()  # principals; if empty, the sender whose message the turn answers
    wait_ms: int = DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """The configuration of one agent, as far as the loops use it."""

    instructions: str = ""
    turn: TurnPolicy = field(default_factory=TurnPolicy)
    thresholds: Thresholds = field(default_factory=Thresholds)
    limits: Limits = field(default_factory=Limits)
    recall: RecallPolicy = field(default_factory=RecallPolicy)
    memory: Mapping[str, Mapping[str, object]] | None = None  # settings by provider; None for the embedded providers
    notes: Capacity = field(default_factory=Capacity)
    deliveries: tuple[DeliveryPolicy, ...] = ()
    expiry: ExpiryPolicy = field(default_factory=ExpiryPolicy)
    groups: GroupPolicy = field(default_factory=GroupPolicy)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    on_doubt: OnDoubt = OnDoubt.RESEND  # for a reply whose outcome is unknown
    talks_to: tuple[str, ...] = ()  # the agents that it may message
    hops_max: int = 8  # limit on hops of a message from agent to agent
    daily_spend_micros: int | None = None  # limit on the cost of models per UTC day, in millionths of a dollar
    channels: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # settings by channel
    mcp: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # settings by MCP server
    model: Mapping[str, object] = field(default_factory=dict)  # the model's settings; empty: a detected model
    # The models that `fallbacks` and `summariser` of the model call by a name.
    models: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    tools: tuple[str, ...] | None = None  # the built-in tools; None for all
