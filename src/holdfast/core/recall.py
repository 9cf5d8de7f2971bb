"""Recall: what memory may be shown, to whom, for how long. A recollection never crosses a boundary.

Rule 1: a recall belongs to its key (session, epoch, head, principal) and is worthless under any other (R10, R11).
Rule 2: an agent never sees another agent's memory; a person never sees what others said in private; what was said in
        private is not shown in a group unless that is configured (R13).
Rule 3: recalled words are data, framed as such, with provenance; they are never instructions.
"""

from dataclasses import dataclass

from holdfast.core.ids import AgentName, Instant, Principal, Provider, SessionId
from holdfast.core.naming import NamingInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallKey:
    """What a recall was fetched for. One that is used under another key is the bug this exists to prevent."""

    session: SessionId
    epoch: int
    head_seq: int
    principal: Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    key: RecallKey
    naming: NamingInputs
    text: str
    group: bool = False  # asked in a chat where several people read
    private_in_groups: bool = False  # the operator allows what was said in private to be recalled in groups
    limit: int = 8

    @property
    def agent(self) -> AgentName:
        return self.naming.agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """One remembered thing, with where it is from."""

    provider: Provider
    text: str
    score: float = 0.0
    session: SessionId | None = None
    turn: int | None = None
    speaker: str = ""
    at: Instant | None = None
    ref: str = ""  # the provider's own id of it
