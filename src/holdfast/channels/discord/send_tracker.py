"""Tracks one message on its way to Discord, at the socket, to know what its sending proved.

discord.py repeats a request answered with 500, 502 or 504, and waits inside a call for its rate limits. What it raises,
or its cancellation, therefore says little about whether the message was posted. The tracker goes along with the request
and notes whether a byte was sent and what came back. Every attempt carries the same enforced nonce.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord

from holdfast.channels.discord.answers import ANSWERS
from holdfast.kernel.vendor_error import NO_ANSWER, Meaning, VendorError, answer_to, vendor_error
from holdfast.outbox.post import Declined, Doubtful, NotSent, SendOutcome, Sent

BLOCKED_WAIT_MS = 60_000  # after an answer of a server in front of the API, or a rejected token
UNKNOWN_MESSAGE = 10008  # Discord's code


class DiscordRateLimited(Exception):
    """Discord answered 429. The outbox waits durably, so discord.py must not wait."""


@dataclass(slots=True)
class SendTracker:
    text: str = ""  # kept out of every reason
    secret: str = ""
    in_flight: bool = False  # a byte of the latest attempt was sent, and no answer came yet
    doubt: bool = False  # an earlier attempt may have posted the message
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    raw: bytes = b""  # the body, unparsed
    wait_ms: int = 0

    def sent(self) -> None:
        self.doubt |= self.in_flight
        self.in_flight, self.status = True, 0

    def answered(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.in_flight, self.status, self.headers = False, status, headers
        self.body, self.raw = _read(body), body
        self.wait_ms = _milliseconds(_field(self.body, "retry_after") or headers.get("Retry-After", ""))
        self.doubt |= not 200 <= status < 300 and self.meaning is Meaning.DOUBTFUL

    def outcome(self, why: str) -> SendOutcome:
        """The proven outcome. `why` explains a missing answer."""
        if 200 <= self.status < 300:
            receipt = _field(self.body, "id")
            if isinstance(receipt, str):
                return Sent(receipt)
            return Doubtful("Discord answered without a message id", vendor=self.vendor)
        if self.in_flight or self.doubt:
            what = f"Discord answered {self.status}" if self.status else f"the answer was lost ({why})"
            return Doubtful(what, vendor=self.vendor)
        if not self.status:
            return NotSent(f"Discord was not reached ({why})", self.wait_ms)
        return self._refused()

    @property
    def vendor(self) -> VendorError:
        """Discord's answer to the latest attempt, for the operator."""
        if not self.status:
            return NO_ANSWER
        secrets = (self.secret,)
        return vendor_error(self.status, self.headers, self.raw, sent=self.text, code_in="code", secrets=secrets)

    @property
    def meaning(self) -> Meaning:
        own = isinstance(self.body, dict) and isinstance(self.body.get("code"), int)
        return answer_to(ANSWERS, self.status, own=own).meaning

    @property
    def is_removed(self) -> bool:
        """Whether the message of a delete request is gone."""
        return self.status == 204 or (self.status == 404 and _field(self.body, "code") == UNKNOWN_MESSAGE)

    def _refused(self) -> SendOutcome:
        if self.status == 429:
            is_not_api = not isinstance(self.body, dict)
            wait_ms = self.wait_ms or (BLOCKED_WAIT_MS if is_not_api else 0)
            whole = is_not_api or _field(self.body, "global") is True
            return NotSent("Discord limits the rate", wait_ms, whole, vendor=self.vendor)
        if self.meaning is Meaning.NOT_SENT:
            return NotSent("Discord rejects the token", BLOCKED_WAIT_MS, whole_account=True, vendor=self.vendor)
        return Declined(f"Discord refused it with {self.status}", vendor=self.vendor)


def answer_of(error: BaseException) -> VendorError:
    """Discord's answer in an exception of discord.py, for requests without people's text."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(error, discord.HTTPException) or not isinstance(headers, Mapping):
        return NO_ANSWER
    return vendor_error(error.status, headers, {"code": error.code, "message": error.text}, code_in="code")


def _read(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _field(body: object, name: str) -> object:
    return body.get(name) if isinstance(body, dict) else None


def _milliseconds(seconds: object) -> int:
    try:
        return max(0, int(float(str(seconds)) * 1000))
    except (ValueError, OverflowError):
        return 0


def watched() -> aiohttp.TraceConfig:
    """An aiohttp trace that reports to the request's tracker, if it has one."""
    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(_on_sent)
    trace.on_request_end.append(_on_answer)
    return trace


async def _on_sent(_: aiohttp.ClientSession, context: SimpleNamespace, __: Any) -> None:  # noqa: ANN401
    tracker = context.trace_request_ctx
    if isinstance(tracker, SendTracker):
        tracker.sent()


async def _on_answer(_: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
    tracker = context.trace_request_ctx
    if isinstance(tracker, SendTracker):
        answer = end.response
        tracker.answered(answer.status, await answer.read(), answer.headers)
        if answer.status == 429:
            raise DiscordRateLimited
