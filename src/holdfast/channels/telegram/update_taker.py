"""One update, taken: read, its file fetched, handed to the intake. Returning means that it may be acknowledged.

Rule 1: what the intake raises travels, and the update is not acknowledged. The exception is an error that only another
        message could mend (`Remedy.CORRECT`): repeating it for ever would block everything behind it.
Rule 2: an update that cannot be read is acknowledged and on record in the log, by its id only.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from holdfast.channels.telegram.failure import BotApiError
from holdfast.channels.telegram.media import Parcel
from holdfast.channels.telegram.reading import Arrival, Heard, Moved, Nothing, read_raw
from holdfast.channels.telegram.wire import BotAccount
from holdfast.inbox.channel import Intake
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX, Attachment
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, Remedy
from holdfast.kernel.ids import Instant

BATCH_DOWNLOADS_MS = 30_000


class Downloads(Protocol):
    async def download(self, file_id: str, bytes_max: int) -> bytes | None: ...


class UpdateTaker:
    """Takes the updates of one poll, side by side. Made anew for each, since they share their time for downloads."""

    def __init__(self, calls: Downloads, me: BotAccount, intake: Intake, now: Callable[[], Instant]) -> None:
        self._calls = calls
        self._me = me
        self._intake = intake
        self._now = now
        self._until = now() + BATCH_DOWNLOADS_MS

    def read(self, raw: object) -> Arrival:
        return read_raw(raw, self._me)

    async def take(self, arrival: Arrival) -> None:
        try:
            await self._act(arrival)
        except HoldfastError as error:
            if error.remedy is not Remedy.CORRECT:
                raise
            log.warning("channel.skipped", update=arrival.id, reason=error.code)

    async def _act(self, arrival: Arrival) -> None:
        match arrival.event:
            case Moved(old, new):
                await self._intake.moved(old, new, new_type="group")
            case Heard(message, parcel):
                files = () if parcel is None else (await self._fetch(parcel),)
                await self._intake.receive(replace(message, attachments=files))
            case Nothing(why, is_odd=is_odd):
                (log.warning if is_odd else log.info)("channel.skipped", update=arrival.id, reason=why)

    async def _fetch(self, parcel: Parcel) -> Attachment:
        body = await self._body(parcel)
        size = parcel.bytes if body is None else len(body)
        return Attachment(name=parcel.name, media_type=parcel.media_type, size=size, body=body)

    async def _body(self, parcel: Parcel) -> bytes | None:
        if parcel.bytes > ATTACHMENT_BYTES_MAX or self._now() >= self._until:
            return None
        try:
            return await self._calls.download(parcel.file_id, ATTACHMENT_BYTES_MAX)
        except BotApiError as failure:
            log.warning("attachment.missed", reason=failure.kind.value)
            return None
