"""The tables of holdfast.toml, as msgspec checks them. The defaults are those of turns/policy.py and stand there only.

What others own passes through as it is and is checked by its owner: models, memory providers, channels, MCP servers.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field, structs

from holdfast.api.limits.server_limits import ServerLimits
from holdfast.inbox.message import Limits
from holdfast.memory.recall import RecallPolicy
from holdfast.outbox.post import OnDoubt
from holdfast.sessions.compression import Thresholds
from holdfast.turns.policy import (
    MINUTE_MS,
    AccessPolicy,
    AgentPolicy,
    ApprovalPolicy,
    Arrivals,
    Door,
    ExpiryPolicy,
    GroupPolicy,
    Sharing,
    TurnPolicy,
)

USD_MICROS = 1_000_000
Share = Annotated[float, Meta(gt=0, le=1)]
BuiltIn = Literal["memory", "recall", "history", "send_message"]
Tables = dict[str, dict[str, Any]]
SHARING_PERSON, SHARING_AGENT = "person", "agent"


class Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


Bytes = Annotated[int, Meta(ge=65_536, le=1 << 40)]
Many = Annotated[int, Meta(ge=1, le=1_000_000)]


class ServerLimitsTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[server.limits]: how much of the HTTP server one client, one token and all together may use."""

    connections_max: Annotated[int, Meta(ge=2, le=100_000)] = ServerLimits().connections_max
    operator_connections: Many = ServerLimits().operator_connections
    client_connections_max: Many = ServerLimits().client_connections_max
    half_open_max: Many = ServerLimits().half_open_max
    client_half_open_max: Many = ServerLimits().client_half_open_max
    client_requests_max: Many = ServerLimits().client_requests_max
    token_requests_max: Many = ServerLimits().token_requests_max
    body_bytes_max: Bytes = ServerLimits().body_bytes_max
    client_body_bytes_max: Bytes = ServerLimits().client_body_bytes_max
    token_body_bytes_max: Bytes = ServerLimits().token_body_bytes_max
    client_bytes_per_minute: Bytes = ServerLimits().client_bytes_per_minute
    token_bytes_per_minute: Bytes = ServerLimits().token_bytes_per_minute
    client_chats_per_hour: Many = ServerLimits().client_chats_per_hour
    token_chats_per_hour: Many = ServerLimits().token_chats_per_hour

    def limits(self) -> ServerLimits:
        return ServerLimits(**structs.asdict(self))


class ServerTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[server]: where the HTTP API listens. What is not said is left to the command line and its defaults."""

    host: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    public_hosts: tuple[str, ...] = ()  # names under which a proxy is reached from outside
    trusted_proxies: tuple[str, ...] = ()  # addresses or networks whose X-Forwarded-For is believed
    limits: ServerLimitsTable = field(default_factory=ServerLimitsTable)


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
    attachments_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = Limits().attachments_bytes_max


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


class Groups(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    groups: Sharing = GroupPolicy().groups
    threads: Sharing = GroupPolicy().threads
    mention_only: bool = GroupPolicy().mention_only
    observe: bool = GroupPolicy().observe


class Access(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    door: Door = AccessPolicy().door
    allow: tuple[str, ...] = ()
    group_door: Door = AccessPolicy().group_door
    allow_chats: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


class Approval(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tools: tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...] = ()
    approvers: tuple[str, ...] = ()
    wait_minutes: Annotated[int, Meta(ge=1, le=525_600)] = ApprovalPolicy().wait_ms // MINUTE_MS


class AgentTable(Table, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[agents.NAME]: one agent."""

    model: str | dict[str, Any] = field(default_factory=dict)  # models/settings.py checks it
    instructions: str = ""
    instructions_file: str | None = None
    context_tokens: Annotated[int, Meta(ge=256, le=100_000_000)] = Thresholds().context_tokens
    daily_spend_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    tools: tuple[BuiltIn, ...] | None = None
    talks_to: tuple[str, ...] = ()
    hops_max: Annotated[int, Meta(ge=0, le=100)] = AgentPolicy().hops_max
    on_doubt: OnDoubt = AgentPolicy().on_doubt
    compression: Compression = field(default_factory=Compression)
    turns: Turns = field(default_factory=Turns)
    limits: Intake = field(default_factory=Intake)
    recall: Recalling = field(default_factory=Recalling)
    expiry: Expiry = field(default_factory=Expiry)
    groups: Groups = field(default_factory=Groups)
    access: Access = field(default_factory=Access)
    approval: Approval = field(default_factory=Approval)
    # `sharing`, and a table for each provider, which checks its own.
    memory: dict[str, dict[str, Any] | str] | None = None
    channels: Tables = field(default_factory=dict)  # each channel checks its own table
    mcp: Tables = field(default_factory=dict)  # each server's table is checked where servers are started

    @property
    def sharing(self) -> object:
        """Who is shown what the agent remembers: each person their own, or all of it whoever talks to the agent."""
        return (self.memory or {}).get("sharing", SHARING_PERSON)

    @property
    def providers(self) -> Tables | None:
        """The tables of the memory providers; None when none is named, which means the embedded ones."""
        if self.memory is None or (self.memory and set(self.memory) == {"sharing"}):
            return None
        return {name: table for name, table in self.memory.items() if isinstance(table, dict)}

    def policy(self) -> AgentPolicy:
        return AgentPolicy(
            instructions=self.instructions,
            turn=self._turn(),
            thresholds=self._thresholds(),
            limits=self._limits(),
            recall=self._recall(),
            expiry=ExpiryPolicy(
                idle_minutes=self.expiry.idle_minutes,
                daily_at=self.expiry.daily_at,
                time_zone=self.expiry.time_zone,
            ),
            groups=self._groups(),
            access=self._access(),
            approval=self._approval(),
            on_doubt=self.on_doubt,
            talks_to=self.talks_to,
            hops_max=self.hops_max,
            daily_spend_micros=None if self.daily_spend_usd is None else round(self.daily_spend_usd * USD_MICROS),
            memory=self.providers,
            channels=self.channels,
            mcp=self.mcp,
            model={"name": self.model} if isinstance(self.model, str) else self.model,
            tools=self.tools,
        )

    def _turn(self) -> TurnPolicy:
        return TurnPolicy(
            arrivals=self.turns.arrivals,
            turn_attempts_max=self.turns.turn_attempts_max,
            model_wait_ms=round(self.turns.model_wait_s * 1000),
        )

    def _thresholds(self) -> Thresholds:
        shares = self.compression
        return Thresholds(context_tokens=self.context_tokens, soft=shares.soft, hard=shares.hard, keep=shares.keep)

    def _limits(self) -> Limits:
        return Limits(
            message_bytes_max=self.limits.message_bytes,
            mailbox_depth_max=self.limits.mailbox_depth,
            window_messages_max=self.limits.messages_per_minute,
            attachments_bytes_max=self.limits.attachments_bytes,
        )

    def _recall(self) -> RecallPolicy:
        return RecallPolicy(
            enabled=self.recall.enabled,
            budget_ms=self.recall.budget_ms,
            limit=self.recall.limit,
            chars_max=self.recall.chars_max,
            private_in_groups=self.recall.private_in_groups,
            shares_all=self.sharing == SHARING_AGENT,
        )

    def _groups(self) -> GroupPolicy:
        own = self.groups
        return GroupPolicy(groups=own.groups, threads=own.threads, mention_only=own.mention_only, observe=own.observe)

    def _access(self) -> AccessPolicy:
        own = self.access
        return AccessPolicy(
            door=own.door,
            allow=frozenset(own.allow),
            group_door=own.group_door,
            allow_chats=frozenset(own.allow_chats),
            operators=frozenset(own.operators),
        )

    def _approval(self) -> ApprovalPolicy:
        own = self.approval
        return ApprovalPolicy(
            tools=frozenset(own.tools), approvers=frozenset(own.approvers), wait_ms=own.wait_minutes * MINUTE_MS
        )
