"""Hands a message to the intake."""

from holdfast.inbox.channel import Intake
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, Remedy


async def receive(intake: Intake, message: ChatMessage) -> None:
    """Raises errors that a retry may mend. A message that only its sender could correct is skipped: it would block the
    messages behind it."""
    try:
        await intake.receive(message)
    except HoldfastError as error:
        if error.remedy is not Remedy.CORRECT:
            raise
        log.warning("channel.skipped", account=message.account, event_id=message.event_id, why=error.code)
