"""The tables of holdfast.toml, as msgspec validates them. Defaults are defined in turns/policy.py only.

The policies of expiry, groups and access are tables themselves.

The tables of models, memory providers, channels and MCP servers pass through unchanged: their owners validate them.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, field, structs

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
    ExpiryPolicy,
    GroupPolicy,
    SettingsTable,
    TurnPolicy,
)

USD_MICROS = 1_000_000
Share = Annotated[float, Meta(gt=0, le=1)]
BuiltIn = Literal["memory", "recall", "history", "send_message"]
Tables = dict[str, dict[str, Any]]
SHARING_PERSON, SHARING_AGENT = "person", "agent"
HOST, PORT = "127.0.0.1", 7420


class ServerTable(SettingsTable, frozen=True, kw_only=True):
    """[server]: the address of the HTTP API. Options of the command line take precedence."""

    host: Annotated[str, Meta(min_length=1, max_length=255)] = HOST
    port: Annotated[int, Meta(ge=0, le=65_535)] = PORT
    public_hosts: tuple[str, ...] = ()  # host names of the reverse proxy
    trusted_proxies: tuple[str, ...] = ()  # proxies whose X-Forwarded-For header is trusted
    limits: ServerLimits = field(default_factory=ServerLimits)


class CompressionTable(SettingsTable, frozen=True, kw_only=True):
    soft: Share = Thresholds().soft
    hard: Share = Thresholds().hard
    keep: Annotated[float, Meta(ge=0, lt=1)] = Thresholds().keep


class TurnsTable(SettingsTable, frozen=True, kw_only=True):
    arrivals: Arrivals = Arrivals.QUEUE
    turn_attempts_max: Annotated[int, Meta(ge=1, le=100)] = TurnPolicy().turn_attempts_max
    model_wait_s: Annotated[float, Meta(gt=0, le=3_600)] = TurnPolicy().model_wait_ms / 1000


class LimitsTable(SettingsTable, frozen=True, kw_only=True):
    message_bytes: Annotated[int, Meta(ge=1, le=16 * 1024 * 1024)] = Limits().message_bytes_max
    mailbox_depth: Annotated[int, Meta(ge=1, le=1_000_000)] = Limits().mailbox_depth_max
    messages_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = Limits().window_messages_max
    attachments_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = Limits().attachments_bytes_max


class RecallTable(SettingsTable, frozen=True, kw_only=True):
    enabled: bool = True
    budget_ms: Annotated[int, Meta(ge=1, le=60_000)] = RecallPolicy().budget_ms
    limit: Annotated[int, Meta(ge=1, le=100)] = RecallPolicy().limit
    chars_max: Annotated[int, Meta(ge=100, le=1_000_000)] = RecallPolicy().chars_max
    private_in_groups: bool = False


class ApprovalTable(SettingsTable, frozen=True, kw_only=True):
    tools: frozenset[Annotated[str, Meta(min_length=1, max_length=64)]] = frozenset()
    approvers: frozenset[str] = frozenset()
    wait_minutes: Annotated[int, Meta(ge=1, le=525_600)] = ApprovalPolicy().wait_ms // MINUTE_MS


class AgentTable(SettingsTable, frozen=True, kw_only=True):
    """[agents.NAME]: one agent."""

    model: str | dict[str, Any] = field(default_factory=dict)  # models/settings.py validates it
    instructions: str = ""
    instructions_file: str | None = None
    context_tokens: Annotated[int, Meta(ge=256, le=100_000_000)] = Thresholds().context_tokens
    daily_spend_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    tools: tuple[BuiltIn, ...] | None = None
    talks_to: tuple[str, ...] = ()
    hops_max: Annotated[int, Meta(ge=0, le=100)] = AgentPolicy().hops_max
    on_doubt: OnDoubt = AgentPolicy().on_doubt
    compression: CompressionTable = field(default_factory=CompressionTable)
    turns: TurnsTable = field(default_factory=TurnsTable)
    limits: LimitsTable = field(default_factory=LimitsTable)
    recall: RecallTable = field(default_factory=RecallTable)
    expiry: ExpiryPolicy = field(default_factory=ExpiryPolicy)
    groups: GroupPolicy = field(default_factory=GroupPolicy)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    approval: ApprovalTable = field(default_factory=ApprovalTable)
    # `sharing`, and a table for each provider, which validates its own.
    memory: dict[str, dict[str, Any] | str] | None = None
    channels: Tables = field(default_factory=dict)  # each channel validates its own table
    mcp: Tables = field(default_factory=dict)  # tools/mcp/settings.py validates them

    @property
    def sharing(self) -> object:
        """Whether a person sees only their own memories, or everyone sees all memories of the agent."""
        return (self.memory or {}).get("sharing", SHARING_PERSON)

    @property
    def providers(self) -> Tables | None:
        """The tables of the memory providers; None if there are none, which means the embedded providers."""
        if self.memory is None or (self.memory and set(self.memory) == {"sharing"}):
            return None
        return {name: table for name, table in self.memory.items() if isinstance(table, dict)}

    def policy(self) -> AgentPolicy:
        """The policy of the agent, in the units and under the names that the runtime uses."""
        return AgentPolicy(
            instructions=self.instructions,
            turn=TurnPolicy(
                arrivals=self.turns.arrivals,
                turn_attempts_max=self.turns.turn_attempts_max,
                model_wait_ms=round(self.turns.model_wait_s * 1000),
            ),
            thresholds=Thresholds(context_tokens=self.context_tokens, **structs.asdict(self.compression)),
            limits=Limits(
                message_bytes_max=self.limits.message_bytes,
                mailbox_depth_max=self.limits.mailbox_depth,
                window_messages_max=self.limits.messages_per_minute,
                attachments_bytes_max=self.limits.attachments_bytes,
            ),
            recall=RecallPolicy(shares_all=self.sharing == SHARING_AGENT, **structs.asdict(self.recall)),
            expiry=self.expiry,
            groups=self.groups,
            access=self.access,
            approval=ApprovalPolicy(
                tools=self.approval.tools,
                approvers=self.approval.approvers,
                wait_ms=self.approval.wait_minutes * MINUTE_MS,
            ),
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
