"""Which open sessions of an agent end next if nobody uses them."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import Instant
from holdfast.store.script import Columns, Script, verb


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingSession:
    id: str
    agent: str
    title: str | None
    principal: str
    epoch: int
    turns: int
    active_at: Instant
    is_busy: bool  # a turn is open, or mail waits: it does not end meanwhile


RESTING = Columns(
    RestingSession,
    "session",
    is_busy="""
case when session.open_turn is not null
       or exists (select 1 from mailbox where session_id = session.id and (owner is not null or depth > 0))
     then 1 else 0 end""",
)
# `idle_from` is never later than `active_at`; the search for expired sessions moves it.
LONGEST = f"""
select {RESTING} from session
 where session.state = 'open' and session.agent = :agent order by session.idle_from, session.id limit :limit"""


@verb
def list_resting_sessions(agent: str, *, limit: int = 50) -> Script[Sequence[RestingSession]]:
    """The open sessions of an agent that were not used for longest first."""
    found = yield from RESTING.rows(LONGEST, agent=agent, limit=limit)
    return sorted(found, key=lambda one: (one.active_at, one.id))
