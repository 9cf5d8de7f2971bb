"""What a failed call of the SDK means for the text that it carried.

Rule 1: a write whose response never came, or cannot be read, is uncertain: the request may have arrived. A request that
        was never sent, or that the server refused, is not.
Rule 2: a status proves something only if the response is Honcho's own; answers.py has the table (D47).
Rule 3: a reason never repeats an error's text: Honcho's 422 quotes the text that it refused. `vendor` holds the
        response without that text (kernel/vendor_error.py). The SDK drops headers and most bodies, so a hook reads
        them first.
"""

import json
import math
from dataclasses import replace

import httpx
from honcho.http import exceptions as sdk  # type: ignore[import-untyped]
from pydantic import ValidationError

from holdfast.kernel.vendor_error import NO_ANSWER, Meaning, VendorError, answer_to, texts_in, vendor_error
from holdfast.memory.delivery import Refused, Uncertain, Unreachable
from holdfast.providers.honcho.answers import ANSWERS, is_own

RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
# The SDK raises these for JSON of an unexpected shape.
MALFORMED = (ValidationError, TypeError, AttributeError, KeyError)


class HonchoCallFailed(Exception):
    """A call failed. It holds the outcome for the delivery, and nothing of the request."""

    def __init__(self, outcome: Refused | Unreachable | Uncertain, *, status: int = 0) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome
        self.status = status

    def after_a_part(self, what: str) -> Uncertain:
        """The outcome if an earlier request of the same delivery has landed or may have."""
        return Uncertain(f"{what}: {self.outcome.reason}", vendor=self.outcome.vendor)


class ErrorResponses:
    """The error responses to one call; `vendor` is the newest, as the operator may see it."""

    def __init__(self, key: str | None) -> None:
        self.vendor = NO_ANSWER
        self._secrets = [key or ""]

    async def note(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        sent = texts_in(_parsed(response.request.content))
        body = await response.aread()
        self.vendor = vendor_error(response.status_code, response.headers, body, sent=sent, secrets=self._secrets)


def failed(error: Exception, *, writes: bool, key_env: str | None, vendor: VendorError) -> HonchoCallFailed:
    """`writes` says whether a request that arrived would have changed anything that matters."""
    status = error.status if isinstance(error, sdk.HonchoError) else 0
    outcome = _by_status(error, status, key_env) if status else _without_response(error)
    if not writes and not isinstance(outcome, Unreachable):
        outcome = Unreachable(outcome.reason, outcome.retry_after_ms if isinstance(outcome, Uncertain) else None)
    return HonchoCallFailed(replace(outcome, vendor=vendor if status else NO_ANSWER), status=status)


def _by_status(error: sdk.HonchoError, status: int, key_env: str | None) -> Refused | Unreachable | Uncertain:
    answer = answer_to(ANSWERS, status, own=is_own(status, error.message, error.body))
    reason = f"{answer.says} ({status}){_advice(status, key_env)}"
    wait_ms = _retry_after_ms(getattr(error, "retry_after", None))
    match answer.meaning:
        case Meaning.REFUSED:
            return Refused(reason)
        case Meaning.UNREACHABLE | Meaning.SUSPECT:
            return Unreachable(reason, wait_ms, suspect=answer.meaning is Meaning.SUSPECT)
        case _:
            suspect = answer.meaning is Meaning.UNCERTAIN_SUSPECT
            return Uncertain(reason, wait_ms, suspect=suspect, away=not suspect)


def _advice(status: int, key_env: str | None) -> str:
    """What the operator should check."""
    if status in (401, 403):
        return f": check the variable {key_env}" if key_env else ": set api_key_env to the variable that holds one"
    return ": check url" if status in (404, 405) else ""


def _without_response(error: Exception) -> Refused | Unreachable | Uncertain:
    cause = error.__cause__
    if isinstance(cause, NEVER_SENT):
        return Unreachable("Honcho cannot be reached: check that it runs and that url is right")
    if isinstance(cause, UnicodeEncodeError):
        return Refused("the text cannot be encoded as UTF-8")
    if isinstance(error, sdk.TimeoutError):
        return Uncertain("Honcho did not answer in time", away=True)
    if isinstance(error, MALFORMED) or isinstance(cause, ValueError):
        why = "the response does not match Honcho's API: check that url is Honcho's and not a proxy's"
        return Uncertain(why, away=True)
    return Uncertain("the connection to Honcho broke before it answered", away=True)


def _retry_after_ms(seconds: float | None) -> int | None:
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(round(seconds * 1000), RETRY_AFTER_MS_MAX)


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None
