"""One message on its way to Discord: what is certain about it, seen at the socket.

discord.py repeats a request that was answered with 500, 502 or 504, and waits inside a call for its rate limits, so
what it raises (or that it was cancelled) says little about whether the message was posted. A letter goes along with
the request and notes whether a byte of it left and what came back. Every attempt carries the same enforced nonce.
"""

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import aiohttp

from holdfast.channels.discord.answers import ANSWERS
from holdfast.core.answers import Meaning, answer_to
from holdfast.core.outgoing import Declined, Doubtful, NotSent, SendOutcome, Sent

BLOCKED_WAIT_MS = 60_000  # when Discord's front door answers instead of its API, or does not like the token
REASON_CHARS_MAX = 100
UNKNOWN_MESSAGE = 10008  # Discord's code


class Limited(Exception):
    """Discord said 429. The ledger waits, durably; discord.py does not wait in its stead."""


@dataclass(slots=True)
class Letter:
    left: bool = False  # a byte of the newest attempt left, and nothing came back yet
    doubt: bool = False  # an earlier attempt may have been posted
    status: int = 0
    body: object = None
    wait_ms: int = 0

    def leaves(self) -> None:
        self.doubt |= self.left
        self.left, self.status = True, 0

    def returns(self, status: int, body: bytes, retry_after: str) -> None:
        self.left, self.status = False, status
        self.body = _read(body)
        self.wait_ms = _milliseconds(_field(self.body, "retry_after") or retry_after)
        self.doubt |= not 200 <= status < 300 and self.meaning is Meaning.DOUBTFUL

    def outcome(self, why: str) -> SendOutcome:
        """What is certain. `why` is for the case that nothing came back."""
        if 200 <= self.status < 300:
            receipt = _field(self.body, "id")
            return Sent(receipt) if isinstance(receipt, str) else Doubtful("Discord answered without a message")
        if self.left or self.doubt:
            return Doubtful(f"Discord answered {self.status}" if self.status else f"the answer was lost ({why})")
        if not self.status:
            return NotSent(f"Discord was not reached ({why})", self.wait_ms)
        return self._refused()

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
            return NotSent("Discord limits the rate", wait_ms, is_front_door or _field(self.body, "global") is True)
        if self.meaning is Meaning.NOT_SENT:
            return NotSent("Discord refuses the token", BLOCKED_WAIT_MS, whole_account=True)
        words = str(_field(self.body, "message") or "")[:REASON_CHARS_MAX]
        return Declined(f"Discord answered {self.status}, code {_field(self.body, 'code')}: {words}")


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
    if isinstance(letter, Letter):
        letter.leaves()


async def _on_answer(_: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
    letter = context.trace_request_ctx
    if isinstance(letter, Letter):
        answer = end.response
        letter.returns(answer.status, await answer.read(), answer.headers.get("Retry-After", ""))
        if answer.status == 429:
            raise Limited
