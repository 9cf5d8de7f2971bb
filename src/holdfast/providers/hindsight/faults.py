"""What went wrong, as an outcome. Every foreign exception and status is translated here and nowhere else.

Rule 1: what did not leave this machine is `Unreachable`; what may have arrived is `Uncertain` when it was a write.
Rule 2: a refusal that is about the words (400, 409, 413, 422) is `Refused`; one that is about the setting up (401,
        403, 404, a redirect, an answer that is no JSON) is `Unreachable`, as nothing is wrong with the words.
Rule 3: no sentence holds a body, a header or the key: the server quotes people's words in its errors.
"""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from holdfast.core.delivery import Refused, Uncertain, Unreachable
from holdfast.core.ids import Instant

Problem = Refused | Unreachable | Uncertain
RETRY_AFTER_MS_MAX = 3_600_000
_ABOUT_THE_WORDS = {
    400: "it takes the request for malformed",
    409: "it has an operation of this id elsewhere",
    413: "it is too large for it",
    422: "it cannot take content like this",
}
_NO_ANSWER = {408, 502, 504}  # somebody gave up; the server may have worked


class Faulted(Exception):
    """A call gave no usable answer; `problem` is what that means for a delivery."""

    def __init__(self, problem: Problem, status: int = 0) -> None:
        super().__init__(problem.reason)
        self.problem = problem
        self.status = status


def not_sent(what: str) -> Faulted:
    return Faulted(Unreachable(f"Hindsight cannot be reached: {what}"))


def cut_off(what: str, *, writes: bool) -> Faulted:
    """The connection or our patience ended while the server may have been at work."""
    reason = f"Hindsight gave no answer: {what}"
    return Faulted(Uncertain(reason) if writes else Unreachable(reason))


def not_understood(what: str) -> Faulted:
    return Faulted(Unreachable(f"what answers at hindsight.url is no Hindsight: {what}"))


def answered(status: int, headers: Mapping[str, str], *, writes: bool, now: Instant, key_env: str | None) -> Faulted:
    """A status that is no success."""
    return Faulted(_problem(status, headers, now, key_env) or _failure(status, writes=writes), status)


def _problem(status: int, headers: Mapping[str, str], now: Instant, key_env: str | None) -> Problem | None:
    """What a status means whatever was asked; None for one that depends on that."""
    if 300 <= status < 400:
        where = urlsplit(headers.get("location", ""))
        target = f"{where.scheme or '(the same scheme)'}://{where.hostname or '(the same host)'}"
        return Unreachable(f"Hindsight was not asked: hindsight.url redirects to {target} ({status}); set it to that")
    if status in (401, 403):
        what = f"set {key_env}" if key_env else "set hindsight.api_key_env"
        return Unreachable(f"Hindsight refused the key ({status}); {what} to one that it takes")
    if status in _ABOUT_THE_WORDS:
        return Refused(f"Hindsight refused it ({status}): {_ABOUT_THE_WORDS[status]}")
    if status in (429, 503):
        return Unreachable(
            f"Hindsight is busy ({status})", retry_after_ms=retry_after_ms(headers.get("retry-after"), now)
        )
    return None


def _failure(status: int, *, writes: bool) -> Problem:
    if status in _NO_ANSWER:
        reason = f"Hindsight gave no answer in time ({status})"
        return Uncertain(reason) if writes else Unreachable(reason)
    if status >= 500:
        return Unreachable(f"Hindsight failed ({status})", suspect=writes)
    return Unreachable(f"hindsight.url answers {status}, which a Hindsight does not; look at the address")


def retry_after_ms(value: str | None, now: Instant) -> int | None:
    """Seconds, or a date in HTTP's spelling; None for neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, RETRY_AFTER_MS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError):
        return None
    at_ms = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    return min(max(at_ms - now, 0), RETRY_AFTER_MS_MAX)
