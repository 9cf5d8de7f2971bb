"""Slack in HTTP mode: Slack calls Holdfast, and 200 means that the event is durable.

Rule 1: the signature is checked before anything is parsed (signature.py).
Rule 2: an event that is not durable in time is answered 503, so that Slack calls again. It stays at the head of its
        conversation nevertheless, and later messages wait behind it: Slack gives up after three more calls.
Rule 3: every call is answered 503 until the missed messages are queued in front.
Rule 4: Slack does not report that it could not reach us. Conversations are therefore read back now and then, from the
        positions of the previous time: a later message may have moved a position past a missed one. The first time in a
        process begins at the account's watermark (channels/receiving.py).
"""

import json
from collections.abc import Awaitable, Callable, Mapping

from holdfast.channels.slack.message import Json, mapping, string
from holdfast.channels.slack.reading import FAULT, NO_POSITIONS, Known, SlackReader
from holdfast.channels.slack.signature import check_signature, check_signed_head
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind
from holdfast.inbox.channel import ChannelSetup, Intake, WebhookAnswer, WebhookRequest
from holdfast.kernel.errors import ChannelFailed, HoldfastError, InvalidInput
from holdfast.kernel.json_body import JSON_TYPE, check_json, check_json_type
from holdfast.kernel.retry import RetryPolicy

READ_BACK_MS = 1_800_000
STEP_MS = 1_000
RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=60_000)
OK, BAD, AGAIN = (WebhookAnswer(status=status) for status in (200, 400, 503))
Check = Callable[[], Awaitable[SlackFailure | None]]


class SlackWebhook:
    """Answers the requests of one app while `stay` runs."""

    def __init__(self, setup: ChannelSetup, secret: str) -> None:
        self._setup = setup
        self._secret = secret
        self._reader: SlackReader | None = None

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raises `BadSignature`, and `UnsupportedMediaType` for a content type other than JSON."""
        check_signed_head(headers, self._setup.clock.now())
        check_json_type(headers.get("content-type", JSON_TYPE))

    async def answer(self, request: WebhookRequest) -> WebhookAnswer:
        """Raises `BadSignature`."""
        check_signature(request, self._secret, self._setup.clock.now())
        try:
            check_json(request.body)
            request_json = json.loads(request.body)
        except InvalidInput:
            return BAD
        if not isinstance(request_json, dict):
            return BAD
        match request_json.get("type"):
            case "url_verification":
                return _challenged(request_json)
            case "event_callback":
                reader, event = self._reader, mapping(request_json, "event")
                return OK if reader is not None and await reader.deliver(event) else AGAIN
            case _:
                return OK  # nothing to keep, and a retry would not change that

    async def stay(self, reader: SlackReader, intake: Intake, check: Check) -> None:
        """Take events until cancelled. Raises `ChannelFailed`, as `check` does when Slack rejects the token."""
        known: Known = {}
        failures = 0
        failure: SlackFailure | None = None
        try:
            while True:
                if failure is None:
                    known, failure = await self._read_back(reader, known)
                failures = failures + 1 if failure else 0
                if failure is not None:
                    intake.disconnected(failure.code, vendor=failure.vendor)
                else:
                    intake.connected("http")
                delay_ms = RETRY.delay_ms(failures, self._setup.entropy.fraction()) if failure else READ_BACK_MS
                await self._pause(reader, delay_ms)
                failure = await check()
        finally:
            self._reader = None

    async def _read_back(self, reader: SlackReader, known: Known) -> tuple[Known, SlackFailure | None]:
        try:
            known = await reader.catch_up(known)
        except HoldfastError as error:
            return known, SlackFailure(SlackFailureKind.UNREACHED, f"{NO_POSITIONS}: {error.code}")
        self._reader = reader
        return known, None

    async def _pause(self, reader: SlackReader, delay_ms: float) -> None:
        """Sleep in steps, to notice a bug of ours before the next reading back."""
        until = self._setup.clock.now() + delay_ms
        while (left_ms := until - self._setup.clock.now()) > 0:
            if reader.is_broken:
                raise ChannelFailed(f"slack: {FAULT}")
            await self._setup.tasks.sleep(min(left_ms, STEP_MS))


def _challenged(request_json: Json) -> WebhookAnswer:
    """Prove to Slack that the URL is ours, before it sends events there."""
    try:
        challenge = string(request_json, "challenge").encode("utf-8")
    except UnicodeEncodeError:
        challenge = b""
    return WebhookAnswer(status=200, body=challenge) if challenge else BAD
