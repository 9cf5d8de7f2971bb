"""What went wrong, as an outcome. Every foreign exception and status is translated here and nowhere else.

Rule 1: what did not leave this machine is `Unreachable`; what may have arrived is `Uncertain` when it was a write.
Rule 2: what a status of a write proves is told in answers.py; a question that failed has changed nothing.
Rule 3: no sentence holds a body, a header or the key: the server quotes people's words in its errors. What it
        answered is in `vendor`, without them (kernel/vendor_error.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from holdfast.kernel.ids import Instant
from holdfast.kernel.status_table import Meaning, answer_to
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.memory.delivery import Refused, Uncertain, Unreachable
from holdfast.providers.hindsight.answers import ANSWERS

Problem = Refused | Unreachable | Uncertain
RETRY_AFTER_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer that is no success."""

    status: int
    headers: Mapping[str, str]
    own: bool  # provably Hindsight's own
    vendor: VendorError = NO_ANSWER


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
    return Faulted(Uncertain(reason, away=True) if writes else Unreachable(reason))


def not_understood(what: str) -> Faulted:
    return Faulted(Unreachable(f"what answers at hindsight.url is no Hindsight: {what}"))


def answered(said: Said, *, writes: bool, now: Instant, key_env: str | None) -> Faulted:
    answer = answer_to(ANSWERS, said.status, own=said.own)
    reason = f"{answer.says} ({said.status}){_advice(said, key_env)}"
    vendor = said.vendor
    wait_ms = retry_after_ms(said.headers.get("retry-after"), now)
    match answer.meaning:
        case Meaning.REFUSED:
            problem: Problem = Refused(reason, vendor=vendor)
        case Meaning.UNCERTAIN if writes:
            problem = Uncertain(reason, wait_ms, away=True, vendor=vendor)
        case _:
            is_suspect = writes and answer.meaning is Meaning.SUSPECT
            problem = Unreachable(reason, wait_ms, suspect=is_suspect, vendor=vendor)
    return Faulted(problem, said.status)


def _advice(said: Said, key_env: str | None) -> str:
    """For an answer that waits for the operator."""
    if said.status in (401, 403):
        return f"; set {key_env or 'hindsight.api_key_env'} to one that it takes"
    if 300 <= said.status < 400:
        where = urlsplit(said.headers.get("location", ""))
        return f" to {where.scheme or '(the same scheme)'}://{where.hostname or '(the same host)'}; set it to that"
    return ""


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
