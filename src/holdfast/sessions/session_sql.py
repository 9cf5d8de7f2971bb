"""Session verbs shared by turns and commands: open, close, branch, undo."""

from dataclasses import dataclass

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import Principal, SessionId
from holdfast.memory.cursor_sql import cancel
from holdfast.sessions.session import Purpose
from holdfast.store.script import Script, one, run
from holdfast.turns.journal import Undone
from holdfast.turns.journal_sql import BranchLink, append, chain, undos

NEW_SESSION = """
insert into session (id, agent, mailbox, principal, purpose, state, last_seq, committed_seq, turns, summaries,
                     opened_at, active_at)
values (:session, :agent, :mailbox, :principal, :purpose, 'open', 0, 0, 0, 0, :now, :now)"""
GO_LIVE = "update mailbox set session_id = :session where id = :mailbox"
POSITION = "select last_seq, turns from session where id = :session"
TURN_START = "select first_seq from turn where session = :session and n = :n"
UNDONE = """
update session
   set last_seq = :last_seq, committed_seq = :last_seq, undo_count = undo_count + 1, active_at = :now
 where id = :session"""


def new_session(claim: Claim, session: SessionId, principal: Principal) -> Script[None]:
    yield from run(
        NEW_SESSION,
        session=session,
        agent=claim.agent,
        mailbox=claim.mailbox,
        principal=principal,
        purpose=Purpose.CONVERSATION.value,
    )
    yield from go_live(claim, session)


def go_live(claim: Claim, session: SessionId | None) -> Script[None]:
    yield from run(GO_LIVE, mailbox=claim.mailbox, session=session)


@dataclass(frozen=True, slots=True)
class PickedTurns:
    """The last effective turns of a session, newest first, and the ancestry that holds them."""

    last_seq: int
    turns: int
    picked: tuple[int, ...]
    links: tuple[BranchLink, ...]

    def owner(self, turn: int) -> SessionId:
        """The session that holds a turn: this one, or one of its ancestors."""
        return next(link.session for link in self.links if link.from_turn < turn)

    @property
    def by_session(self) -> list[tuple[SessionId, list[int]]]:
        owners = dict.fromkeys(self.owner(turn) for turn in self.picked)
        return [(owner, [turn for turn in self.picked if self.owner(turn) == owner]) for owner in owners]


def pick_turns(session: SessionId, count: int) -> Script[PickedTurns]:
    row = yield from one(POSITION, session=session)
    last_seq, turns = row or (0, 0)
    links = yield from chain(session)
    voided = [entry.body for entry in (yield from undos(links)) if isinstance(entry.body, Undone)]
    picked: list[int] = []
    turn = turns
    while turn > 0 and len(picked) < count:
        if not any(undo.first_turn <= turn <= undo.last_turn for undo in voided):
            picked.append(turn)
        turn -= 1
    return PickedTurns(last_seq, turns, tuple(picked), links)


def undo_turns(session: SessionId, claim: Claim, found: PickedTurns, *, by: str) -> Script[int]:
    """Append an undo of the picked turns; the number of the last entry. Inherited turns are hidden in this session
    only."""
    if not found.picked:
        return found.last_seq
    first = found.picked[-1]
    start = yield from one(TURN_START, session=found.owner(first), n=first)
    undo = Undone(first_turn=first, last_turn=found.turns, from_seq=start[0] if start else 1, by=by)
    last_seq = yield from append(session, 0, found.last_seq, (undo,), claim)
    yield from run(UNDONE, session=session, last_seq=last_seq)
    yield from cancel(session, found.picked)
    return last_seq
