"""One message on its way to Discord: what is certain about it, seen at the socket.

discord.py repeats a request that was answered with 500, 502 or 504, and waits inside a call for its rate limits, so
what it raises (or that it was cancelled) says little about whether the message was posted. A letter goes along with
the request and notes whether a byte of it left and what came back. Every attempt carries the same enforced nonce.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord

from holdfast.channels.discord.answers import ANSWERS
from holdfast.kernel.status_table import Meaning, answer_to
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError, vendor_error
from holdfast.outbox.post import Declined, Doubtful, NotSent, SendOutcome, Sent

BLOCKED_WAIT_MS = 60_000  # when Discord's front door answers instead of its API, or does not like the token
UNKNOWN_MESSAGE = 10008  # Discord's code


class DiscordRateLimited(Exception):
    """Discord said 429. The ledger waits, durably; discord.py does not wait in its stead."""


@dataclass(slots=True)
class SendTracker:
    text: str = ""  # what it says, which no reason repeats
    secret: str = ""
    left: bool = False  # a byte of the newest attempt left, and nothing came back yet
    doubt: bool = False  # an earlier attempt may have been posted
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    said: bytes = b""  # the body as it came
    wait_ms: int = 0

    def leaves(self) -> None:
        self.doubt |= self.left
        self.left, self.status = True, 0

    def returns(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.left, self.status, self.headers = False, status, headers
        self.body, self.said = _read(body), body
        self.wait_ms = _milliseconds(_field(self.body, "retry_after") or headers.get("Retry-After", ""))
        self.doubt |= not 200 <= status < 300 and self.meaning is Meaning.DOUBTFUL

    def outcome(self, why: str) -> SendOutcome:
        """What is certain. `why` is for the case that nothing came back."""
        if 200 <= self.status < 300:
            receipt = _field(self.body, "id")
            if isinstance(receipt, str):
                return Sent(receipt)
            return Doubtful("Discord answered without a message", vendor=self.vendor)
        if self.left or self.doubt:
            what = f"Discord answered {self.status}" if self.status else f"the answer was lost ({why})"
            return Doubtful(what, vendor=self.vendor)
        if not self.status:
            return NotSent(f"Discord was not reached ({why})", self.wait_ms)
        return self._refused()

    @property
    def vendor(self) -> VendorError:
        """What Discord answered to the newest attempt, for the operator."""
        if not self.status:
            return NO_ANSWER
        secrets = (self.secret,)
        return vendor_error(self.status, self.headers, self.said, sent=self.text, code_in="code", secrets=secrets)

    @property
    def meaning(self) -> Meaning:
        own = isinstance(self.body, dict) and isinstance(self.body.get("code"), int)
        return answer_to(ANSWERS, self.status, own=own).meaning

    @property
    def is_removed(self) -> bool:
        """Of a request to delete: whether the message is not there any more, or was not."""
        return self.status == 204 or (self.status == 404 and _field(self.body, "code") == UNKNOWN_MESSAGE)

    def _refused(self) -> SendOutcome:
        if self.status == 429:
            is_front_door = not isinstance(self.body, dict)
            wait_ms = self.wait_ms or (BLOCKED_WAIT_MS if is_front_door else 0)
            whole = is_front_door or _field(self.body, "global") is True
            return NotSent("Discord limits the rate", wait_ms, whole, vendor=self.vendor)
        if self.meaning is Meaning.NOT_SENT:
            return NotSent("Discord refuses the token", BLOCKED_WAIT_MS, whole_account=True, vendor=self.vendor)
        return Declined(f"Discord refused it with {self.status}", vendor=self.vendor)


def answered(error: BaseException) -> VendorError:
    """What Discord answered to a request that carried nobody's words, by the exception of discord.py."""
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
    """Tell the letter that goes with a request, if one does, what becomes of it."""
    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(_on_sent)
    trace.on_request_end.append(_on_answer)
    return trace


async def _on_sent(_: aiohttp.ClientSession, context: SimpleNamespace, __: Any) -> None:  # noqa: ANN401
    letter = context.trace_request_ctx
    if isinstance(letter, SendTracker):
        letter.leaves()


async def _on_answer(_: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
    letter = context.trace_request_ctx
    if isinstance(letter, SendTracker):
        answer = end.response
        letter.returns(answer.status, await answer.read(), answer.headers)
        if answer.status == 429:
            raise DiscordRateLimited
