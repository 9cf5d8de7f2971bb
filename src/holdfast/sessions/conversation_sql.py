"""A chat as its participants saw it: all messages, commands included, and all replies, in their order.

The journal is the model's view: it has no commands, no questions to a human and no refused messages. This module reads
the inbound and reply rows instead. A page is a number of messages with all their replies; pruned and forgotten messages
are absent.
"""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.inbox.address import parse
from holdfast.kernel.ids import ApprovalId, SessionId
from holdfast.sessions.session import ChatLine
from holdfast.store.script import Columns, Script, one, verb
from holdfast.turns.approval_sql import waited_for
from holdfast.turns.journal import Undone
from holdfast.turns.journal_sql import chain, undos


def _shown(body: bytes) -> str:
    return bytes(body).decode("utf-8", "replace")


MAILBOX = "select mailbox_id from address where address = :address"
SAID_LINE = Columns(ChatLine, without=("approval", "undone"), id="message", text=("body", _shown))
SAID = f"""
select {SAID_LINE} from inbound
 where account = :account and conversation = :conversation and mailbox = :mailbox and seq < :before
   and length(body) > 0 order by seq desc limit :limit"""
REPLY_LINE = Columns(
    ChatLine,
    "reply",
    without=("approval", "undone"),
    event_id="''",
    principal="null",
    text=("reply.body", _shown),
    seq="inbound.seq",
)
REPLIES = f"""
select {REPLY_LINE}
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
    (mailbox,) = (yield from one(MAILBOX, address=address)) or ("",)
    said = yield from SAID_LINE.rows(SAID, mailbox=mailbox, before=before, limit=limit, **place)
    if not said:
        return []
    replied = yield from REPLY_LINE.rows(REPLIES, mailbox=mailbox, first=said[-1].seq, last=said[0].seq, **place)
    asked, approval = yield from _question(mailbox, replied)
    replies = [replace(line, approval=approval) if line.id == asked else line for line in replied]
    # At the same time a message precedes a reply; the sort keeps the order of equals.
    return (yield from _with_undone(sorted((*reversed(said), *replies), key=lambda line: (line.at, line.is_reply))))


def _question(mailbox: str, replied: Sequence[ChatLine]) -> Script[tuple[str | None, ApprovalId | None]]:
    """The reply that asks for the open turn's approval, and the approval."""
    row = yield from waited_for(mailbox)
    if row is None:
        return None, None
    approval, _, _, session, turn, _ = row
    last = yield from one(TURN_LAST, session=session, turn=turn)
    asking = [reply.id for reply in replied if last is not None and reply.message == last[0]]
    return (asking[-1], ApprovalId(approval)) if asking else (None, None)


def _with_undone(lines: Sequence[ChatLine]) -> Script[Sequence[ChatLine]]:
    """Mark undone messages. Turn numbers are never reused within a session."""
    gone: set[tuple[SessionId, int]] = set()
    for session in {line.session for line in lines if line.session is not None}:
        for entry in (yield from undos((yield from chain(session)))):
            if isinstance(entry.body, Undone):
                gone |= {(session, n) for n in range(entry.body.first_turn, entry.body.last_turn + 1)}
    return [replace(line, undone=True) if (line.session, line.turn) in gone else line for line in lines]
