"""Takes one update: fetches its file and hands it to the intake. An update may be acknowledged once `take` returns.

Rule 1: an error of the intake is raised, and the update is not acknowledged. The exception is an error that only the
        sender could correct (`Remedy.CORRECT`): retrying it would block every update behind it for ever.
Rule 2: an update that cannot be read is acknowledged, and logged by its id only.
Rule 3: a file that is too large, gone or slow is named without its bytes. Each download has a limit of time
        (bot_api.DOWNLOAD_S), and all downloads of one poll share another, so that a file delays a message only briefly.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.channels.telegram.bot_api_error import BotApiError
from holdfast.channels.telegram.reading import IncomingUpdate, read_update
from holdfast.channels.telegram.wire import BotAccount
from holdfast.inbox.channel import Intake
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, Remedy
from holdfast.kernel.ids import Instant

if TYPE_CHECKING:
    from holdfast.channels.telegram.bot_api import BotApi

BATCH_DOWNLOADS_MS = 30_000


class UpdateTaker:
    """Takes the updates of one poll concurrently. Each poll has its own, because its updates share download time."""

    def __init__(self, api: "BotApi", me: BotAccount, intake: Intake, now: Callable[[], Instant]) -> None:
        self._api = api
        self._me = me
        self._intake = intake
        self._now = now
        self._until = now() + BATCH_DOWNLOADS_MS

    def read(self, raw: object) -> IncomingUpdate:
        return read_update(raw, self._me)

    async def take(self, update: IncomingUpdate) -> None:
        try:
            await self._take(update)
        except HoldfastError as error:
            if error.remedy is not Remedy.CORRECT:
                raise
            log.warning("channel.skipped", update=update.id, reason=error.code)

    async def _take(self, update: IncomingUpdate) -> None:
        if update.moved is not None:
            await self._intake.moved(*update.moved, new_type="group")
        elif update.message is not None:
            await self._intake.receive(await self._with_file(update.message, update.file_id))
        else:
            (log.warning if update.is_malformed else log.info)(
                "channel.skipped", update=update.id, reason=update.skipped
            )

    async def _with_file(self, message: ChatMessage, file_id: str) -> ChatMessage:
        if not file_id or message.attachments[0].size > ATTACHMENT_BYTES_MAX or self._now() >= self._until:
            return message
        try:
            body = await self._api.download(file_id, ATTACHMENT_BYTES_MAX)
        except BotApiError as failure:
            log.warning("attachment.missed", reason=failure.kind.value)
            return message
        if body is None:
            return message
        return replace(message, attachments=(replace(message.attachments[0], size=len(body), body=body),))
