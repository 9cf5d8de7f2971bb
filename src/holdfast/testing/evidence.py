"""The evidence about a history, gathered outside the runtime: rows, acknowledgements, requests, effects, claims."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import AgentName
from holdfast.memory.lane import LaneClaim, LaneKey
from holdfast.testing.areas import Late
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.chats import Chats
from holdfast.testing.company import Company
from holdfast.testing.lineage import Lineage
from holdfast.testing.models import ModelAsked
from holdfast.testing.platform import RecordedTurn, SentMessage
from holdfast.testing.rows import Row, Rows
from holdfast.testing.servers import Lookup, Server
from holdfast.testing.strangers_agent import Look
from holdfast.turns.policy import AgentPolicy

Found: TypeAlias = Iterator[str]
IN_TURN = frozenset({"answered", "failed", "interrupted"})
NOT_YET = 1 << 60
TERMINAL = IN_TURN | {"command", "observed", "held", "refused"}


@dataclass(slots=True)
class HistoryTally:
    """What happened to the nodes."""

    kills: int = 0
    pauses: int = 0
    stops: int = 0
    crashes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Backfilled:
    """A provider that was added later: when it was configured, and when its backfill had ended."""

    late: Late
    configured_ms: int = NOT_YET
    ended_ms: int = NOT_YET

    def is_excused(self, key: tuple[str, str], turn: Row, turns: Sequence[Row]) -> bool:
        """Whether the provider need not have a turn: the turn is older, and the session continued with the provider
        before the backfill, so the provider's cursor begins there (D22)."""
        went_on = any(self.configured_ms <= (row["closed_at"] or 0) <= self.ended_ms for row in turns)
        return key[0] == self.late.policy.provider and went_on and turn["closed_at"] <= self.configured_ms


@dataclass(frozen=True, kw_only=True)
class Evidence:
    rows: Rows
    sent: Sequence[SentMessage]
    recorded: Sequence[RecordedTurn] = ()
    asked: Sequence[ModelAsked] = ()
    effects: Mapping[tuple[str, str], int] = field(default_factory=dict)
    arguments: Mapping[tuple[str, str], str] = field(default_factory=dict)  # of the calls that had an effect
    claims: Sequence[Claim] = ()
    policies: Mapping[AgentName, AgentPolicy] = field(default_factory=dict)
    stranded: str | None = None
    servers: Mapping[LaneKey, Server] = field(default_factory=dict)
    lookups: Sequence[Lookup] = ()
    lane_claims: Sequence[LaneClaim] = ()
    chats: Chats | None = None
    late: Backfilled | None = None
    company: Company | None = None
    more: Mapping[str, list[Row]] = field(default_factory=dict)  # tables that only some histories fill
    ended_at: float = 0.0
    looks: Sequence[Look] = ()

    def has(self, area: ChannelArea) -> bool:
        return self.company is not None and area in self.company.areas

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts of people and of agents to each other, by event id. Deleted words are unknown."""
        said = {sent.say.event_id: sent.say.text for sent in self.sent}
        for row in self.rows["reply"]:
            if row["channel"] == "agent" and row["body"]:
                text = bytes(row["body"]).decode()
                said[f"{row['id']}.0"] = f"[a message from the agent {row['agent']}]\n{text}"
        return said

    @cached_property
    def lineage(self) -> Lineage:
        return Lineage(self.rows)
