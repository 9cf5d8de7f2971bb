"""What pydantic-ai and the vendors' libraries raise, as `ModelFailed`: a sentence that the sender may see.

Rule 1: no key, no address, no prompt and no body of an answer is in a sentence. Vendors echo all of them in their
        errors, so the original is not chained either: it would be written to the log. The status, the request id and
        an extract without any of them are in `ModelFailed.vendor`, for the operator.
Rule 2: `final` says that asking the same model again cannot help; `elsewhere` that another model might.
"""

import asyncio
from collections.abc import Mapping

import httpx2
from pydantic_ai import exceptions as vendor

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.vendor_error import VendorError, vendor_error

RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
# What an adapter lets through: pydantic-ai's own, the transport's, and what libraries raise over an answer that is no
# JSON or JSON of another shape.
FOREIGN = (
    *(vendor.AgentRunError, vendor.UserError, httpx2.HTTPError, httpx2.StreamError, OSError, EOFError),
    *(ValueError, TypeError, AttributeError, LookupError),
)


def failed(what: str, *, final: bool = False, elsewhere: bool = True, retry_after_ms: int = 0) -> ModelFailed:
    return ModelFailed(what, final=final, elsewhere=elsewhere, retry_after_ms=retry_after_ms)


def late(name: str, wait_s: float, *, began: bool) -> ModelFailed:
    what = "stopped in the middle of its answer: nothing came for" if began else "did not begin to answer within"
    return failed(f"the model {name} {what} {wait_s:g} s")


def translated(name: str, error: Exception, *, sent: str = "") -> ModelFailed:
    """The failure, with what the vendor answered. `sent` is the text of the request, which is not to be repeated."""
    failure = _by_kind(name, error)
    failure.context["vendor"] = _answered(error, sent)
    return failure


def _answered(error: BaseException, sent: str) -> VendorError:
    """What the vendor's answer says. The library hands some of it on, and leaves the rest on the cause."""
    chain = [one for one in (error, error.__cause__, error.__context__) if one is not None]
    statuses = (getattr(one, "status_code", None) for one in chain)
    holders = (*chain, *(getattr(one, "response", None) for one in chain))
    headers = (getattr(one, "headers", None) for one in holders)
    bodies = (getattr(one, "body", None) for one in chain)
    return vendor_error(
        next((one for one in statuses if isinstance(one, int)), 0),
        next((one for one in headers if isinstance(one, Mapping)), None),
        next((one for one in bodies if one), None),
        sent=sent,
    )


def _by_kind(name: str, error: Exception) -> ModelFailed:
    """Told by what kind of failure it is. The order is that of the library's classes: special first."""
    for kind, what, final in _KINDS:
        if isinstance(error, kind):
            return failed(f"the model {name} {what}", final=final, retry_after_ms=_retry_after_ms(error))
    if isinstance(error, vendor.ModelHTTPError):
        return _by_status(name, error.status_code, _retry_after_ms(error))
    if isinstance(error, asyncio.IncompleteReadError | vendor.ModelAPIError):
        status = getattr(error.__cause__, "status_code", 0)
        return _by_status(name, status, 0) if status else failed(f"the model {name} sent an answer that is no answer")
    return failed(f"the model {name} sent an answer that cannot be read")


def refused(name: str, status: int) -> ModelFailed:
    """Why a question that asks for no answer failed; without a status it never arrived."""
    if status in (401, 403):
        return failed(f"the model {name} refused our key: the operator must check it", final=True)
    return _by_status(name, status, 0) if status else failed(f"the model {name} could not be reached")


_KINDS: tuple[tuple[type[Exception], str, bool], ...] = (
    (vendor.ContentFilterError, "refused to answer this", True),
    (vendor.ModelRateLimitError, "is asked too often just now", False),
    (vendor.ModelQuotaExceededError, "has no credit left: its account must be topped up", True),
    (vendor.ModelContextWindowExceededError, "cannot take in a conversation of this length", True),
    (vendor.ModelAuthenticationError, "refused our key: the operator must check it", True),
    (vendor.ModelNotFoundError, "does not exist at its vendor, or not for this key", True),
    (vendor.ModelRequestRejectedError, "refused the request as it was put", True),
    (vendor.ModelUnavailableError, "is overloaded or down", False),
    (vendor.ModelServerError, "failed at its vendor's side", False),
    (vendor.ModelTimeoutError, "did not answer in time", False),
    (vendor.ModelRequestTimeout, "did not answer in time", False),
    (vendor.ModelConnectionError, "could not be reached, or the connection broke", False),
    (vendor.IncompleteToolCall, "called a tool and broke off", False),
    (vendor.UserError, "cannot be asked this way: the operator must check its settings", True),
    (httpx2.TimeoutException, "did not answer in time", False),
    (httpx2.HTTPError, "could not be reached, or the connection broke", False),
)


def _by_status(name: str, status: int, retry_after_ms: int) -> ModelFailed:
    if 300 <= status < 400:
        return failed(f"the model {name} wants us to go to another address, which is not done", final=True)
    is_final = 400 <= status < 500 and status not in (408, 409, 425, 429)
    what = f"the model {name} answered with the status {status}"
    return failed(what, final=is_final, retry_after_ms=retry_after_ms)


def _retry_after_ms(error: Exception) -> int:
    wait_s = getattr(error, "retry_after", None)
    if not isinstance(wait_s, int | float) or not wait_s > 0:
        return 0
    return min(RETRY_AFTER_MS_MAX, int(wait_s * 1000))
