"""Replies: what is said to the sender, as rows of a ledger."""

from holdfast.core.turn import Reply
from holdfast.stores.script import Script, run

NEW_REPLY = """
insert into reply (id, mailbox, session, turn, message, channel, address, state, at, body)
values (:id, :mailbox, :session, :turn, :message, :channel, :address, :state, :now, :body)"""


def insert_reply(
    reply: Reply,
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
        state="delivered" if reply.pulled else "pending",
        body=reply.text.encode(),
    )
