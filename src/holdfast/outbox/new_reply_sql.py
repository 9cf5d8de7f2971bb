"""Inserting replies into the ledger."""

from holdfast.outbox.post import PULLED, ReplyState
from holdfast.store.script import Script, run
from holdfast.turns.turn import NewReply

NEW_REPLY = """
insert into reply (id, mailbox, session, turn, message, agent, channel, address, hop, chain, state, due_at, at,
                   body)
values (:id, :mailbox, :session, :turn, :message, (select agent from mailbox where id = :mailbox), :channel,
        coalesce((select address from inbound where message = :message), :address),
        coalesce((select hop from inbound where message = :message), 0),
        (select chain from turn where session = :session and n = :turn), :state, :now, :now, :body)"""


def insert_reply(
    reply: NewReply,
    *,
    mailbox: str,
    address: str,
    channel: str,
    message: str,
    session: str | None,
    turn: int | None = None,
) -> Script[None]:
    yield from run(
        NEW_REPLY,
        id=reply.id,
        mailbox=mailbox,
        session=session,
        turn=turn,
        message=message,
        channel=channel,
        address=address,
        state=(ReplyState.DELIVERED if channel in PULLED else ReplyState.PENDING).value,
        body=reply.text.encode(),
    )
