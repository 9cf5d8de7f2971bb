"""What was gathered about a history, outside the runtime: rows, acknowledgements, requests, effects, claims."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from holdfast.core.ids import AgentName
from holdfast.core.lane import LaneClaim, LaneKey
from holdfast.core.mailbox import Claim
from holdfast.core.policy import AgentPolicy
from holdfast.testing.chats import Chats
from holdfast.testing.lineage import Lineage
from holdfast.testing.models import Asked
from holdfast.testing.platform import RecordedTurn, Sent
from holdfast.testing.rows import Rows
from holdfast.testing.servers import Lookup, Server

Found: TypeAlias = Iterator[str]
IN_TURN = frozenset({"answered", "failed", "interrupted"})
TERMINAL = IN_TURN | {"command", "observed", "held", "refused"}


@dataclass(slots=True)
class Tally:
    """What happened to the nodes."""

    kills: int = 0
    pauses: int = 0
    stops: int = 0
    crashes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    rows: Rows
    sent: Sequence[Sent]
    recorded: Sequence[RecordedTurn] = ()
    asked: Sequence[Asked] = ()
    effects: Mapping[tuple[str, str], int] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    policies: Mapping[AgentName, AgentPolicy] = field(default_factory=dict)
    stranded: str | None = None
    servers: Mapping[LaneKey, Server] = field(default_factory=dict)
    lookups: Sequence[Lookup] = ()
    lane_claims: Sequence[LaneClaim] = ()
    chats: Chats | None = None

    @cached_property
    def lineage(self) -> Lineage:
        return Lineage(self.rows)
