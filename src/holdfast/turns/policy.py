"""What an operator may choose: how arrivals meet a running turn, how often to try, when to give up."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.inbox.message import Limits
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.memory.notes import NotesPolicy
from holdfast.memory.recall import RecallPolicy
from holdfast.outbox.post import OnDoubt
from holdfast.sessions.compression import Thresholds


class Arrivals(Enum):
    """What happens to a message that arrives while a turn runs. None is ever dropped."""

    QUEUE = "queue"  # it waits for its own turn
    STEER = "steer"  # it joins the running turn at the next step
    INTERRUPT = "interrupt"  # it ends the running turn and gets its own
    COLLECT = "collect"  # it waits, and shares one turn with those that wait beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPolicy:
    arrivals: Arrivals = Arrivals.QUEUE
    turn_attempts_max: int = 10  # after this many claims a turn ends as failed, visibly (D11)
    model_attempts_max: int = 3  # of one question
    model_retries_max: int = 8  # of all questions of a turn together
    model_wait_ms: int = 120_000
    tool_wait_ms: int = 120_000
    steps_max: int = 40
    unattended_max: int = 12  # turns in a row without a human before mail is held (D12)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
_TIME_OF_DAY = re.compile(r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPolicy:
    """When a session that nobody uses ends. Without either it never does. Raises `ConfigInvalid`."""

    idle_minutes: int | None = None
    daily_at: str | None = None  # HH:MM, in the time zone
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
        """How long after local midnight the day's boundary is, on a day without a change of clocks."""
        found = _TIME_OF_DAY.fullmatch(self.daily_at or "")
        return (int(found["hour"]) * 60 + int(found["minute"])) * MINUTE_MS if found else None


class Sharing(Enum):
    """Whose conversation a group or a thread is."""

    SHARED = "shared"  # everybody in it talks to one session
    PER_USER = "per_user"  # each sender has a session of their own, as Hermes has it


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPolicy:
    """How an agent takes part where several people talk. Unaddressed talk is observed, not answered (D12)."""

    groups: Sharing = Sharing.SHARED
    threads: Sharing = Sharing.SHARED
    mention_only: bool = True  # answer only what is said to the agent; otherwise everything
    observe: bool = True  # keep what was not said to it, as context


class Door(Enum):
    """How senders whom nobody has let in are met."""

    PAIR = "pair"  # refused, and told how to ask the operator
    CLOSED = "closed"  # refused in silence
    OPEN = "open"  # let in


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """Who may talk to an agent over a chat platform. Principals are <channel>:<immutable id>."""

    door: Door = Door.PAIR
    allow: frozenset[str] = frozenset()
    group_door: Door = Door.CLOSED  # for senders in groups who are not let in themselves
    allow_chats: frozenset[str] = frozenset()  # <channel>:<chat id>: everybody in these groups may talk
    operators: frozenset[str] = frozenset()  # principals who may give every command, in every chat of the agent


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """Which tool calls wait for a human, and for how long."""

    tools: frozenset[str] = frozenset()  # beside those that are marked dangerous themselves; `*` is all
    approvers: frozenset[str] = frozenset()  # principals; empty: whoever asked the agent
    wait_ms: int = DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """Everything that is configured for one agent and matters to the loops."""

    instructions: str = ""
    turn: TurnPolicy = field(default_factory=TurnPolicy)
    thresholds: Thresholds = field(default_factory=Thresholds)
    limits: Limits = field(default_factory=Limits)
    recall: RecallPolicy = field(default_factory=RecallPolicy)
    memory: Mapping[str, Mapping[str, object]] | None = None  # provider to its settings; None for the embedded ones
    notes: NotesPolicy = field(default_factory=NotesPolicy)
    deliveries: tuple[DeliveryPolicy, ...] = ()
    expiry: ExpiryPolicy = field(default_factory=ExpiryPolicy)
    groups: GroupPolicy = field(default_factory=GroupPolicy)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    on_doubt: OnDoubt = OnDoubt.RESEND  # for a reply that may have been posted
    talks_to: tuple[str, ...] = ()  # the agents that it may message
    hops_max: int = 8  # how often a message may go from agent to agent
    daily_spend_micros: int | None = None  # millionths of a dollar that models may cost per day (UTC)
    channels: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # channel to its settings
    mcp: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # MCP server to its settings
    model: Mapping[str, object] = field(default_factory=dict)  # the model's settings; empty: whatever is at hand
    tools: tuple[str, ...] | None = None  # which built-in tools; None for all
