"""What a failed call of the SDK means for the words that it carried.

Rule 1: uncertain is what may have happened: an answer that never came, or one that cannot be read, after a request
        that may have arrived. A request that was never sent, or that the server answered with a refusal, is not.
Rule 2: a batch is one transaction at Honcho, and 500 and 503 are its own words that the transaction was rolled back
        (a lock that was held too long, a database that is down). They mean unreachable, and should one ever lie, the
        next attempt lists before it sends. 502 and 504 are a proxy's words about a server that may still be at it.
Rule 3: a reason never repeats an error's text: Honcho's 422 holds the words that it refused.
"""

import math

import httpx
from honcho.http import exceptions as sdk  # type: ignore[import-untyped]
from pydantic import ValidationError

from holdfast.core.delivery import Refused, Uncertain, Unreachable

RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
# What the SDK raises when an answer is JSON of another shape than it expects.
MISSHAPEN = (ValidationError, TypeError, AttributeError, KeyError)
REFUSED = {
    400: "Honcho refused the request (400)",
    409: "Honcho reports a conflict (409)",
    413: "Honcho, or a proxy before it, refused the request as too large (413)",
    422: "Honcho refused the content (422)",
}
ROLLED_BACK = frozenset({500, 503})


class CallFailed(Exception):
    """A call did not succeed. It holds what that means, and nothing of what was sent."""

    def __init__(self, outcome: Refused | Unreachable | Uncertain, *, status: int = 0) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome
        self.status = status


def failed(error: Exception, *, writes: bool, key_env: str | None) -> CallFailed:
    """`writes` says whether the call, had it arrived, would have changed anything that matters."""
    status = error.status if isinstance(error, sdk.HonchoError) else 0
    meant = _by_status(error, status, key_env) if status else _without_answer(error)
    if not writes and not isinstance(meant, Unreachable):
        meant = Unreachable(meant.reason)
    return CallFailed(meant, status=status)


def _by_status(error: sdk.HonchoError, status: int, key_env: str | None) -> Refused | Unreachable | Uncertain:
    if status in REFUSED:
        return Refused(REFUSED[status])
    if status in ROLLED_BACK:
        return Unreachable(f"Honcho could not do it ({status})", suspect=status == 500)
    if status >= 500:
        return Uncertain(f"a proxy before Honcho gave up waiting ({status})")
    if status == 429:
        return Unreachable("Honcho asks to slow down (429)", retry_after_ms=_ms(error.retry_after))
    return Unreachable(_about_setup(status, key_env))


def _about_setup(status: int, key_env: str | None) -> str:
    """An answer that waits for the operator: nothing is wrong with the words."""
    if status in (401, 403):
        what = f"check the variable {key_env}" if key_env else "set api_key_env to the variable that holds one"
        return f"Honcho does not accept the key ({status}): {what}"
    if status == 404:
        return "no Honcho API answers there (404): check url; or the session is being deleted at Honcho"
    if 300 <= status < 400:
        return f"Honcho's url answers with a redirect ({status}), which is not followed: correct url"
    return f"Honcho's url answers {status}: check url"


def _without_answer(error: Exception) -> Refused | Unreachable | Uncertain:
    cause = error.__cause__
    if isinstance(cause, NEVER_SENT):
        return Unreachable("Honcho cannot be reached: is it running, and is url right?")
    if isinstance(cause, UnicodeEncodeError):
        return Refused("the text cannot be written as UTF-8")
    if isinstance(error, sdk.TimeoutError):
        return Uncertain("Honcho did not answer in time")
    if isinstance(error, MISSHAPEN) or isinstance(cause, ValueError):
        return Uncertain("Honcho's answer is not what its API gives: is url that of Honcho, or of a proxy?")
    return Uncertain("the connection to Honcho broke before it answered")


def _ms(seconds: float | None) -> int | None:
    """A server's wish, within reason."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(round(seconds * 1000), RETRY_AFTER_MS_MAX)
