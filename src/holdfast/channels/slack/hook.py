"""Slack over HTTP: it calls us, and 200 means that what it told is durable.

Rule 1: the signature is checked before anything is read (signature.py).
Rule 2: a message that is not durable in time is answered 503, so that Slack calls again, and stays at the head of its
        conversation all the same: Slack gives up after three more calls, and later messages wait behind it.
Rule 3: nothing is taken before what was missed has its place in front: until then every call is answered 503.
Rule 4: nobody tells us that Slack could not reach us. So conversations are read back now and then, from where they had
        been read up to at the look before: what came later may have moved a mark past what was missed. The first look
        of a process begins where the last whole look of any did (attendance.py).
"""

import json
from collections.abc import Awaitable, Callable, Mapping

from holdfast.channels.slack.message import Json, part, word
from holdfast.channels.slack.reading import FAULT, Known, SlackReader
from holdfast.channels.slack.signature import check_signature, check_signed_head
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind
from holdfast.inbox.channel import ChannelSetup, Intake, WebhookAnswer, WebhookRequest
from holdfast.kernel.errors import ChannelFailed, HoldfastError, InvalidInput
from holdfast.kernel.json_check import check_json
from holdfast.kernel.media_type import JSON_TYPE, check_json_type
from holdfast.kernel.retry import RetryPolicy

LOOK_MS = 1_800_000
STEP_MS = 1_000
RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=60_000)
OK, BAD, AGAIN = (WebhookAnswer(status=status) for status in (200, 400, 503))
Check = Callable[[], Awaitable[SlackFailure | None]]


class SlackWebhook:
    """The requests of one app. Knows how to answer them only while `stay` runs."""

    def __init__(self, setup: ChannelSetup, secret: str) -> None:
        self._setup = setup
        self._secret = secret
        self._reading: SlackReader | None = None

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raises `BadSignature`, and `UnsupportedMediaType` for anything that is said not to be JSON."""
        check_signed_head(headers, self._setup.clock.now())
        check_json_type(headers.get("content-type", JSON_TYPE))

    async def answer(self, request: WebhookRequest) -> WebhookAnswer:
        """Raises `BadSignature`."""
        check_signature(request, self._secret, self._setup.clock.now())
        try:
            check_json(request.body)
            told = json.loads(request.body)
        except InvalidInput:
            return BAD
        if not isinstance(told, dict):
            return BAD
        match told.get("type"):
            case "url_verification":
                return _challenged(told)
            case "event_callback":
                return await self._event(part(told, "event"))
            case _:
                return OK  # no news, and no better the next time

    async def _event(self, event: Json) -> WebhookAnswer:
        reading = self._reading
        return OK if reading is not None and await reading.deliver(event) else AGAIN

    async def stay(self, reading: SlackReader, intake: Intake, check: Check) -> None:
        """Take events until cancelled. Raises `ChannelFailed`, as `check` does when the token is no longer taken."""
        known: Known = {}
        failures = 0
        failure: SlackFailure | None = None
        try:
            while True:
                if failure is None:
                    known, failure = await self._look(reading, known)
                failures = failures + 1 if failure else 0
                if failure is not None:
                    intake.disconnected(failure.code, vendor=failure.vendor)
                else:
                    intake.connected("http")
                delay_ms = RETRY.delay_ms(failures, self._setup.entropy.fraction()) if failure else LOOK_MS
                await self._pause(reading, delay_ms)
                failure = await check()
        finally:
            self._reading = None

    async def _look(self, reading: SlackReader, known: Known) -> tuple[Known, SlackFailure | None]:
        try:
            known = await reading.catch_up(known)
        except HoldfastError as error:
            return known, SlackFailure(
                SlackFailureKind.UNREACHED, f"how far conversations were read is not known: {error.code}"
            )
        self._reading = reading
        return known, None

    async def _pause(self, reading: SlackReader, delay_ms: float) -> None:
        """In steps, since a fault of ours must not wait for the next look."""
        until = self._setup.clock.now() + delay_ms
        while (left_ms := until - self._setup.clock.now()) > 0:
            if reading.is_broken:
                raise ChannelFailed(f"slack: {FAULT}")
            await self._setup.tasks.sleep(min(left_ms, STEP_MS))


def _challenged(told: Json) -> WebhookAnswer:
    """Slack asks whether the address is ours, before it sends anything there."""
    try:
        challenge = word(told, "challenge").encode("utf-8")
    except UnicodeEncodeError:
        challenge = b""
    return WebhookAnswer(status=200, body=challenge) if challenge else BAD
