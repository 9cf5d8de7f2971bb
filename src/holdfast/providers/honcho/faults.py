"""What a failed call of the SDK means for the words that it carried.

Rule 1: uncertain is what may have happened: an answer that never came, or one that cannot be read, after a request
        that may have arrived. A request that was never sent, or that the server answered with a refusal, is not.
Rule 2: a status proves something only where the answer is Honcho's own; answers.py has the table (D47).
Rule 3: a reason never repeats an error's text: Honcho's 422 holds the words that it refused. What was answered is in
        `vendor`, without them (vendor_error.py). The SDK drops headers and most bodies, so they are read from the
        response before it does.
"""

import json
import math
from dataclasses import replace

import httpx
from honcho.http import exceptions as sdk  # type: ignore[import-untyped]
from pydantic import ValidationError

from holdfast.kernel.status_table import Meaning, answer_to
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError, texts_in, vendor_error
from holdfast.memory.delivery import Refused, Uncertain, Unreachable
from holdfast.providers.honcho.answers import ANSWERS, is_own

RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
# What the SDK raises when an answer is JSON of another shape than it expects.
MISSHAPEN = (ValidationError, TypeError, AttributeError, KeyError)


class CallFailed(Exception):
    """A call did not succeed. It holds what that means, and nothing of what was sent."""

    def __init__(self, outcome: Refused | Unreachable | Uncertain, *, status: int = 0) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome
        self.status = status


class HonchoAnswer:
    """The answers to one call: the newest that is an error, as far as an operator is told of it."""

    def __init__(self, key: str | None) -> None:
        self.vendor = NO_ANSWER
        self._secrets = [key or ""]

    async def note(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        sent = texts_in(_parsed(response.request.content))
        body = await response.aread()
        self.vendor = vendor_error(response.status_code, response.headers, body, sent=sent, secrets=self._secrets)


def failed(error: Exception, *, writes: bool, key_env: str | None, vendor: VendorError = NO_ANSWER) -> CallFailed:
    """`writes` says whether the call, had it arrived, would have changed anything that matters."""
    status = error.status if isinstance(error, sdk.HonchoError) else 0
    meant = _by_status(error, status, key_env) if status else _without_answer(error)
    if not writes and not isinstance(meant, Unreachable):
        meant = Unreachable(meant.reason, meant.retry_after_ms if isinstance(meant, Uncertain) else None)
    return CallFailed(replace(meant, vendor=vendor if status else NO_ANSWER), status=status)


def _by_status(error: sdk.HonchoError, status: int, key_env: str | None) -> Refused | Unreachable | Uncertain:
    answer = answer_to(ANSWERS, status, own=is_own(status, error.message, error.body))
    reason = f"{answer.says} ({status}){_advice(status, key_env)}"
    wait_ms = _ms(getattr(error, "retry_after", None))
    match answer.meaning:
        case Meaning.REFUSED:
            return Refused(reason)
        case Meaning.UNREACHABLE | Meaning.SUSPECT:
            return Unreachable(reason, wait_ms, suspect=answer.meaning is Meaning.SUSPECT)
        case _:
            suspect = answer.meaning is Meaning.UNCERTAIN_SUSPECT
            return Uncertain(reason, wait_ms, suspect=suspect, away=not suspect)


def _advice(status: int, key_env: str | None) -> str:
    """For an answer that waits for the operator."""
    if status in (401, 403):
        return f": check the variable {key_env}" if key_env else ": set api_key_env to the variable that holds one"
    return ": check url" if status in (404, 405) else ""


def _without_answer(error: Exception) -> Refused | Unreachable | Uncertain:
    cause = error.__cause__
    if isinstance(cause, NEVER_SENT):
        return Unreachable("Honcho cannot be reached: is it running, and is url right?")
    if isinstance(cause, UnicodeEncodeError):
        return Refused("the text cannot be written as UTF-8")
    if isinstance(error, sdk.TimeoutError):
        return Uncertain("Honcho did not answer in time", away=True)
    if isinstance(error, MISSHAPEN) or isinstance(cause, ValueError):
        why = "Honcho's answer is not what its API gives: is url that of Honcho, or of a proxy?"
        return Uncertain(why, away=True)
    return Uncertain("the connection to Honcho broke before it answered", away=True)


def _ms(seconds: float | None) -> int | None:
    """A server's wish, within reason."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(round(seconds * 1000), RETRY_AFTER_MS_MAX)


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None
