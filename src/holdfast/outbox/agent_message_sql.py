"""Messages from one agent to another: reply rows, inserted with the journal step that sends them (D9)."""

from collections.abc import Sequence

from holdfast.inbox.agent_chain import stored
from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import MessageId
from holdfast.outbox.post import ReplyState
from holdfast.store.script import Script, run
from holdfast.turns.turn import OutgoingMessage, Turn

CHANNEL = "agent"
NEW = """
insert into reply (id, mailbox, session, turn, message, agent, channel, address, hop, chain, state, due_at, at,
                   body)
values (:id, :mailbox, :session, :turn, :message, :agent, :channel, :address, :hop, :chain, :state, :now, :now,
        :body)"""


def send_messages(claim: Claim, turn: Turn, messages: Sequence[OutgoingMessage]) -> Script[None]:
    """Insert the messages of a turn; their hop count is one more than that of the messages the turn answers."""
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
