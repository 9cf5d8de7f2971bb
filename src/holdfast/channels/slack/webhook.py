"""Slack in HTTP mode: Slack calls Holdfast, and 200 means that the event is durable.

Rule 1: the signature (Slack's version 0) is checked on the raw bytes before they are parsed. A request whose signed
        time is more than `AGE_MS_MAX` from now, past or future, is refused; one that is replayed within that time is a
        duplicate, recognised by its event id. A refusal helps the operator and reveals nothing to a forger.
Rule 2: an event that is not durable in time is answered 503, so that Slack calls again. It stays at the head of its
        conversation nevertheless, and later messages wait behind it: Slack gives up after three more calls.
Rule 3: every call is answered 503 until the missed messages are queued in front.
Rule 4: Slack does not report that it could not reach us. Conversations are therefore read back now and then, from the
        positions of the previous time: a later message may have moved a position past a missed one. The first time in a
        process begins at the account's watermark (channels/receiving.py).
"""

import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping

from holdfast.channels.slack.message import Json, mapping, string
from holdfast.channels.slack.reading import FAULT, NO_POSITIONS, Known, SlackReader
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind
from holdfast.inbox.channel import ChannelSetup, Intake, WebhookAnswer, WebhookRequest
from holdfast.kernel.errors import BadSignature, ChannelFailed, HoldfastError, InvalidInput
from holdfast.kernel.ids import Instant
from holdfast.kernel.json_body import JSON_TYPE, check_json, check_json_type
from holdfast.kernel.retry import RetryPolicy

READ_BACK_MS = 1_800_000
STEP_MS = 1_000
RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=60_000)
OK, BAD, AGAIN = (WebhookAnswer(status=status) for status in (200, 400, 503))
SIGNATURE = "x-slack-signature"
TIMESTAMP = "x-slack-request-timestamp"
AGE_MS_MAX = 300_000
_SIGNED = re.compile(r"v0=[0-9a-f]{64}")  # exactly one; two signatures joined by a proxy do not match
_SECONDS = re.compile(r"[0-9]{1,12}")
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


# --- signatures -----------------------------------------------------------------------------------


def check_signature(request: WebhookRequest, secret: str, now: Instant) -> None:
    """Raises `BadSignature`."""
    check_signed_head(request.headers, now)
    signature, timestamp = request.headers[SIGNATURE], request.headers[TIMESTAMP]
    if not hmac.compare_digest(signature, signed(secret, timestamp, request.body)):
        raise BadSignature("the signature does not match the request and the signing secret")


def check_signed_head(headers: Mapping[str, str], now: Instant) -> None:
    """Check the headers before the body is read. Raises `BadSignature`."""
    signature, timestamp = headers.get(SIGNATURE, ""), headers.get(TIMESTAMP, "")
    if not _SECONDS.fullmatch(timestamp):
        raise BadSignature(f"{TIMESTAMP} is missing or is not a time in seconds")
    if not _SIGNED.fullmatch(signature):
        raise BadSignature(f"{SIGNATURE} is missing or is not one signature of version v0")
    if abs(now - int(timestamp) * 1000) > AGE_MS_MAX:
        raise BadSignature(f"the request was signed more than {AGE_MS_MAX // 1000} seconds from now")


def signed(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the header `X-Slack-Signature`."""
    signed_text = b"v0:" + timestamp.encode("ascii") + b":" + body
    return f"v0={hmac.new(secret.encode(), signed_text, hashlib.sha256).hexdigest()}"
