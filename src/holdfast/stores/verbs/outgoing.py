"""Messages from one agent to another: reply rows of the step that journals that they were sent (D9)."""

from collections.abc import Sequence

from holdfast.core.agent_chain import stored
from holdfast.core.ids import MessageId
from holdfast.core.mailbox import Claim
from holdfast.core.outgoing import ReplyState
from holdfast.core.turn import OutgoingMessage, Turn
from holdfast.stores.script import Script, run

CHANNEL = "agent"
NEW = """
insert into reply (id, mailbox, session, turn, message, agent, channel, address, hop, chain, state, due_at, at,
                   body)
values (:id, :mailbox, :session, :turn, :message, :agent, :channel, :address, :hop, :chain, :state, :now, :now,
        :body)"""


def send_messages(claim: Claim, turn: Turn, messages: Sequence[OutgoingMessage]) -> Script[None]:
    """One agent further than the messages that the turn answers have come."""
    answered = turn.messages[-1] if turn.messages else MessageId("")
    for message in messages:
        yield from run(
            NEW,
            id=message.id,
            mailbox=claim.mailbox,
            session=turn.session,
            turn=turn.n,
            message=answered,
            agent=claim.agent,
            channel=CHANNEL,
            address=message.address,
            hop=turn.hop + 1,
            chain=stored(turn.chain),
            state=ReplyState.PENDING.value,
            body=message.text.encode(),
        )
