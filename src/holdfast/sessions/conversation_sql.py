"""A chat as its participants saw it: all messages, commands included, and all replies, in their order.

The journal is the model's view: it has no commands, no questions to a human and no refused messages. This module reads
the inbound and reply rows instead. A page is a number of messages with all their replies; pruned and forgotten messages
are absent.
"""

from collections.abc import Sequence

from holdfast.inbox.address import parse
from holdfast.inbox.message import MessageState
from holdfast.kernel.ids import ApprovalId, Instant, MessageId, Principal, SessionId
from holdfast.sessions.conversation import ChatLine
from holdfast.store.script import Row, Script, one, rows, verb
from holdfast.turns.approval_sql import waited_for
from holdfast.turns.journal import Undone
from holdfast.turns.journal_sql import chain, undos

SAID = """
select message, event_id, principal, body, state, session, turn, at, seq, mailbox from inbound
 where account = :account and conversation = :conversation
   and mailbox = (select mailbox_id from address where address = :address) and seq < :before
   and length(body) > 0 order by seq desc limit :limit"""
REPLIES = """
select reply.id, reply.message, reply.body, reply.state, reply.session, reply.turn, reply.at, inbound.seq
  from inbound join reply on reply.message = inbound.message
 where inbound.account = :account and inbound.conversation = :conversation and inbound.mailbox = :mailbox
   and inbound.seq between :first and :last and reply.channel <> 'agent' and length(reply.body) > 0
 order by reply.n"""
TURN_LAST = "select message from inbound where session = :session and turn = :turn order by seq desc limit 1"


@verb
def read_conversation(address: str, *, before: int, limit: int) -> Script[Sequence[ChatLine]]:
    """The newest messages before a position, with their replies, oldest first."""
    at = parse(address)  # over HTTP, the account is the agent and the conversation is the chat (D38)
    place = {"account": at.agent, "conversation": at.chat}
    said = yield from rows(SAID, address=address, before=before, limit=limit, **place)
    if not said:
        return []
    mailbox, first, last = said[0][9], said[-1][8], said[0][8]
    replied = yield from rows(REPLIES, mailbox=mailbox, first=first, last=last, **place)
    asked, approval = yield from _question(mailbox, replied)
    found = [(row[7], 0, n, _said(row)) for n, row in enumerate(reversed(said))]
    found += [(row[6], 1, n, _reply(row, approval if row[0] == asked else None)) for n, row in enumerate(replied)]
    lines = [line for *_, line in sorted(found, key=lambda one: one[:3])]
    return (yield from _with_undone(lines))


def _question(mailbox: str, replied: Sequence[Row]) -> Script[tuple[str | None, ApprovalId | None]]:
    """The reply that asks for the open turn's approval, and the approval."""
    row = yield from waited_for(mailbox)
    if row is None:
        return None, None
    last = yield from one(TURN_LAST, session=row[3], turn=row[4])
    asking = [reply[0] for reply in replied if last is not None and reply[1] == last[0]]
    return (asking[-1], ApprovalId(row[0])) if asking else (None, None)


def _said(row: Row) -> ChatLine:
    return ChatLine(
        id=row[0],
        message=MessageId(row[0]),
        event_id=row[1],
        principal=Principal(row[2]),
        text=bytes(row[3]).decode("utf-8", "replace"),
        state=MessageState(row[4]).value,
        session=SessionId(row[5]) if row[5] else None,
        turn=row[6],
        at=Instant(row[7]),
        seq=row[8],
    )


def _reply(row: Row, approval: ApprovalId | None) -> ChatLine:
    return ChatLine(
        id=row[0],
        message=MessageId(row[1]),
        event_id="",
        principal=None,
        text=bytes(row[2]).decode("utf-8", "replace"),
        state=row[3],
        session=SessionId(row[4]) if row[4] else None,
        turn=row[5],
        at=Instant(row[6]),
        seq=row[7],
        approval=approval,
    )


def _with_undone(lines: Sequence[ChatLine]) -> Script[Sequence[ChatLine]]:
    """Mark undone messages. Turn numbers are never reused within a session."""
    gone: set[tuple[SessionId, int]] = set()
    for session in {line.session for line in lines if line.session is not None}:
        for entry in (yield from undos((yield from chain(session)))):
            if isinstance(entry.body, Undone):
                gone |= {(session, n) for n in range(entry.body.first_turn, entry.body.last_turn + 1)}
    return [line.undo() if (line.session, line.turn) in gone else line for line in lines]
