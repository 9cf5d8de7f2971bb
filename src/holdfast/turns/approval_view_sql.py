"""Approval reads: the call behind a question, and the operators' views of it.

The arguments are read from the journal, because they are people's words; the approval row holds the digest and its
salt.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kernel.errors import ApprovalNotFound
from holdfast.kernel.ids import ApprovalId
from holdfast.store.script import Columns, Query, Row, Script, one, plain, rows, together, verb
from holdfast.turns.approval import ApprovalView
from holdfast.turns.call_view import call_digest, one_line
from holdfast.turns.journal import AssistantSaid, ToolCall, decode_body

VIEW = Columns(
    ApprovalView,
    "approval",
    without=("arguments", "digest", "salt", "cut"),
    agent="mailbox.agent",
    address="mailbox.address",
)
ASKED = "approval.session, approval.turn, approval.call, approval.digest, approval.salt, approval.cut"
VIEWS = f"select {VIEW}, {ASKED} from approval join mailbox on mailbox.id = approval.mailbox"
ONE = f"{VIEWS} where approval.id = :id"
OPEN = """
 where approval.decided_at is null and (:agent = '' or mailbox.agent = :agent)
 order by approval.asked_at, approval.id limit :limit"""
NEWEST = """
 where :agent = '' or mailbox.agent = :agent
 order by approval.asked_at desc, approval.id desc limit :limit"""
# The turn bounds the search: a session may have a million entries.
OF_TURN = """entry.session = turn.session and entry.seq between turn.first_seq and turn.last_seq
   and entry.turn = turn.n and entry.kind = 'assistant'"""
# A cross join keeps SQLite from beginning with the entries.
CALLS = f"""
select entry.body from turn cross join entry
 where {OF_TURN} and turn.session = :session and turn.n = :turn order by entry.seq desc"""
ALL_CALLS = """
select listed.id, entry.body
  from (select approval.id, approval.session, approval.turn
          from approval join mailbox on mailbox.id = approval.mailbox {listed}) as listed
  cross join turn cross join entry
 where turn.session = listed.session and turn.n = listed.turn and {of_turn}
 order by entry.seq desc"""
OLD_SHOWN_CHARS = 600  # shown arguments in questions that predate digests


class AskedCall(NamedTuple):
    """The call that a question is about."""

    digest: str
    salt: bytes
    cut: bool
    on_record: bool = True  # the row has the digest


def asked_of(row: Row) -> Script[AskedCall]:
    """The call from the columns in `ASKED`.

    An older row has no digest; its call is read from the journal unless it was forgotten.
    """
    session, turn, call, digest, salt, cut = row
    if digest is not None:
        return AskedCall(digest, bytes(salt), bool(cut))
    wish = yield from _wish(session, turn, call)
    if wish is None:
        return AskedCall("", b"", bool(cut), on_record=False)
    was_cut = bool(cut) or len(one_line(wish.arguments)) > OLD_SHOWN_CHARS
    return AskedCall(call_digest(wish.name, wish.arguments, b""), b"", was_cut, on_record=False)


@verb
def find_approval(wanted: ApprovalId) -> Script[ApprovalView]:
    row = yield from one(ONE, id=plain(wanted))
    if row is None:
        raise ApprovalNotFound(f"there is no approval {wanted[:40]!r}", approval=wanted[:40])
    return (yield from _view(row, (yield from _wish(*row[-6:-3]))))


@verb
def list_approvals(
    *, decided: bool = False, agent: str | None = None, limit: int = 100
) -> Script[Sequence[ApprovalView]]:
    """Open approvals, oldest first; with `decided`, all approvals, newest first."""
    listed = NEWEST if decided else OPEN
    wanted = {"limit": limit, "agent": agent or ""}
    found, said = yield from together(
        Query(f"{VIEWS}{listed}", dict(wanted)),
        Query(ALL_CALLS.format(listed=listed, of_turn=OF_TURN), dict(wanted)),
    )
    bodies: defaultdict[str, list[bytes]] = defaultdict(list)
    for approval, body in said:
        bodies[approval].append(body)
    views = []
    for row in found:
        view: ApprovalView = VIEW.value(row[:-6], arguments="", digest="", salt=b"", cut=False)
        views.append((yield from _view(row, _call_in(bodies[view.id], row[-4]))))
    return views


def _view(row: Row, wish: ToolCall | None) -> Script[ApprovalView]:
    asked = yield from asked_of(row[-6:])
    arguments = wish.arguments if wish is not None else ""
    return VIEW.value(row[:-6], arguments=arguments, digest=asked.digest, salt=asked.salt, cut=asked.cut)


def _wish(session: str, turn: int, call: str) -> Script[ToolCall | None]:
    """The call in the journal; None if it was forgotten."""
    found = yield from rows(CALLS, session=session, turn=turn)
    return _call_in([body for (body,) in found], call)


def _call_in(bodies: Sequence[bytes], call: str) -> ToolCall | None:
    for body in bodies:
        said = decode_body("assistant", bytes(body))
        for wish in said.calls if isinstance(said, AssistantSaid) else ():
            if plain(wish.id) == call:
                return wish
    return None
