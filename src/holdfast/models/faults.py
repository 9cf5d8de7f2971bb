"""Errors of pydantic-ai and the vendors' libraries as `ModelFailed`, with a message that the sender may see.

Rule 1: no message holds a key, an address, a prompt or a response body. Vendors echo all of them in their errors, so
        the original error is not chained either: the log would show it. `ModelFailed.vendor` holds the status, the
        request id and a redacted extract for the operator.
Rule 2: `final` says that a retry with the same model cannot help; `elsewhere` that another model might.
"""

import asyncio
from collections.abc import Mapping

import httpx2
from pydantic_ai import exceptions as vendor

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.vendor_error import VendorError, vendor_error

RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
# Errors that reach us: pydantic-ai's own, the transport's, and those of libraries for a response that is not JSON or
# has another shape.
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
    """The failure with the vendor's response. `sent` is the text of the request, which must not be repeated."""
    failure = _by_kind(name, error)
    failure.context["vendor"] = _answered(error, sent)
    return failure


def _answered(error: BaseException, sent: str) -> VendorError:
    """The vendor's response. The library copies some of it to its own error, and leaves the rest on the cause."""
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
    """The failure by the error's class. The table lists subclasses first."""
    for kind, what, final in _KINDS:
        if isinstance(error, kind):
            return failed(f"the model {name} {what}", final=final, retry_after_ms=_retry_after_ms(error))
    if isinstance(error, vendor.ModelHTTPError):
        return _by_status(name, error.status_code, _retry_after_ms(error))
    if isinstance(error, asyncio.IncompleteReadError | vendor.ModelAPIError):
        status = getattr(error.__cause__, "status_code", 0)
        return _by_status(name, status, 0) if status else failed(f"the model {name} sent an invalid response")
    return failed(f"the model {name} sent a response that cannot be read")


def refused(name: str, status: int) -> ModelFailed:
    """The failure of a check that asks for no answer; without a status the request never arrived."""
    if status in (401, 403):
        return failed(f"the model {name} refused our key: the operator must check it", final=True)
    return _by_status(name, status, 0) if status else failed(f"the model {name} could not be reached")


_KINDS: tuple[tuple[type[Exception], str, bool], ...] = (
    (vendor.ContentFilterError, "refused to answer this", True),
    (vendor.ModelRateLimitError, "is rate limited", False),
    (vendor.ModelQuotaExceededError, "has no credit left: its account must be topped up", True),
    (vendor.ModelContextWindowExceededError, "cannot process a conversation of this length", True),
    (vendor.ModelAuthenticationError, "refused our key: the operator must check it", True),
    (vendor.ModelNotFoundError, "does not exist at its vendor, or not for this key", True),
    (vendor.ModelRequestRejectedError, "rejected the request", True),
    (vendor.ModelUnavailableError, "is overloaded or down", False),
    (vendor.ModelServerError, "failed at its vendor", False),
    (vendor.ModelTimeoutError, "did not answer in time", False),
    (vendor.ModelRequestTimeout, "did not answer in time", False),
    (vendor.ModelConnectionError, "could not be reached, or the connection broke", False),
    (vendor.IncompleteToolCall, "broke off in the middle of a tool call", False),
    (vendor.UserError, "cannot be used like this: the operator must check its settings", True),
    (httpx2.TimeoutException, "did not answer in time", False),
    (httpx2.HTTPError, "could not be reached, or the connection broke", False),
)


def _by_status(name: str, status: int, retry_after_ms: int) -> ModelFailed:
    if 300 <= status < 400:
        return failed(f"the model {name} redirects to another address, which is not followed", final=True)
    is_final = 400 <= status < 500 and status not in (408, 409, 425, 429)
    what = f"the model {name} answered with the status {status}"
    return failed(what, final=is_final, retry_after_ms=retry_after_ms)


def _retry_after_ms(error: Exception) -> int:
    wait_s = getattr(error, "retry_after", None)
    if not isinstance(wait_s, int | float) or not wait_s > 0:
        return 0
    return min(RETRY_AFTER_MS_MAX, int(wait_s * 1000))
