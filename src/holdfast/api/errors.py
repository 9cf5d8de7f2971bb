"""Errors of HTTP requests, and the HTTP status of every error."""

from collections.abc import Mapping

from holdfast.kernel.errors import HoldfastError, InvalidInput, Remedy

RETRY_SOON_S = 1


class NotFound(HoldfastError):
    """The route does not exist."""

    remedy = Remedy.CORRECT
    hint = "See GET /openapi.json for all routes."


class MethodNotAllowed(HoldfastError):
    """The route does not support this HTTP method."""

    remedy = Remedy.CORRECT
    hint = "See GET /openapi.json for the methods of each route."


class InvalidHttp(InvalidInput):
    """The request is not well-formed HTTP, or its head is too large."""

    hint = "Send one well-formed request at a time, with a head of at most 64 KiB."


class UnsupportedParameter(InvalidInput):
    """The request uses a parameter of OpenAI's API that Holdfast does not support."""

    hint = "Remove the parameter that the message names."


class AuthRequired(HoldfastError):
    """The request has no valid token."""

    remedy = Remedy.CORRECT
    hint = (
        "Send `Authorization: Bearer <token>`. The operator's token is in HOLDFAST_TOKEN, or in the file `token` of "
        "the data folder."
    )


class TokenExpired(AuthRequired):
    """The token has expired."""

    hint = "Create a new token with `holdfast token new`, or ask the operator for one."


class LoginEnded(AuthRequired):
    """The browser login was ended, or this server does not know it."""

    hint = "Log in again with a token or with the link that `holdfast up` prints."


class LoginExpired(LoginEnded):
    """The browser login is too old, or was idle for too long."""


class TooManyAttempts(HoldfastError):
    """This client sent too many requests with a wrong token."""

    remedy = Remedy.RETRY
    hint = "Wait one minute, and check which program uses an outdated token."


class TokenInUrl(HoldfastError):
    """The URL contains a token, which ends up in logs and browser histories."""

    remedy = Remedy.CORRECT
    hint = "Send the token in the header `Authorization: Bearer <token>`. If this URL was logged, revoke the token."


class HostNotAllowed(HoldfastError):
    """The Host header names a host that this server does not serve (protection against DNS rebinding)."""

    remedy = Remedy.CORRECT
    hint = "Use http://127.0.0.1:<port> or http://localhost:<port>, or name the host with --public-host."


class OriginNotAllowed(HoldfastError):
    """The request was made by a web page of another origin."""

    remedy = Remedy.CORRECT
    hint = "Open the page that this server delivers, or use a program with a token instead of a browser."


class CsrfTokenMissing(HoldfastError):
    """A browser request that changes data has no valid CSRF token."""

    remedy = Remedy.CORRECT
    hint = "Send the header X-Holdfast-CSRF with the value that GET /v1/me returns, or use a bearer token."


class TooManyConnections(HoldfastError):
    """The server has reached its maximum number of open connections."""

    remedy = Remedy.RETRY
    hint = "Close unused connections and try again later, or raise connections_max in [server.limits]."


class TooManyRequests(HoldfastError):
    """The client or token has reached its maximum number of concurrent requests."""

    remedy = Remedy.RETRY
    hint = "Wait for a response before sending more; see client_requests_max and token_requests_max in [server.limits]."


class TooManyBytes(HoldfastError):
    """The client or token is uploading the maximum number of bytes at once."""

    remedy = Remedy.RETRY
    hint = "Send fewer large requests at once; see client_body_bytes_max and token_body_bytes_max in [server.limits]."


class ByteRateExceeded(HoldfastError):
    """The client or token has uploaded the maximum number of bytes within a minute."""

    remedy = Remedy.RETRY
    hint = (
        "Retry after the time in Retry-After; see client_bytes_per_minute and token_bytes_per_minute in "
        "[server.limits]."
    )


class TooManyChats(HoldfastError):
    """The client or token has started the maximum number of new chats within an hour."""

    remedy = Remedy.RETRY
    hint = "Continue in an existing chat, or raise client_chats_per_hour and token_chats_per_hour in [server.limits]."


class BodyMemoryFull(HoldfastError):
    """The server holds the maximum number of request bytes in memory."""

    remedy = Remedy.RETRY
    hint = "Retry after the time in Retry-After, or raise body_bytes_max in [server.limits]."


class SlowReader(HoldfastError):
    """The client does not read the data that it is sent, so the connection was closed."""

    remedy = Remedy.CORRECT
    hint = "Nothing is lost: reconnect and request the message by its id."


class RequestTimeout(HoldfastError):
    """The body of the request did not arrive in time."""

    remedy = Remedy.RETRY
    hint = "Send the request again."


class InternalError(HoldfastError):
    """An unexpected error occurred in Holdfast."""

    remedy = Remedy.REPORT
    hint = "Find the event http.failed in holdfast.log in the data folder, and please report it."


class PublicBindRefused(HoldfastError):
    """Holdfast does not listen on a public address without a chosen token and a public host name."""

    remedy = Remedy.CORRECT
    hint = "Use --host 127.0.0.1 behind a reverse proxy, or set HOLDFAST_TOKEN and name this server with --public-host."


class TokenTooShort(HoldfastError):
    """The operator's token has fewer than 32 characters and could be guessed."""

    remedy = Remedy.CORRECT
    hint = (
        "Set HOLDFAST_TOKEN to 32 or more random characters (`openssl rand -hex 32`), or unset it and delete the file "
        "`token` in the data folder: Holdfast then creates a new token."
    )


class TokenTooWeak(TokenTooShort):
    """The operator's token consists of a few repeated characters and could be guessed."""


class PortInUse(HoldfastError):
    """Another program is listening on the port."""

    remedy = Remedy.REPAIR
    hint = "Choose another port with --port, or stop the other program."


CODES_BY_STATUS: Mapping[int, tuple[str, ...]] = {
    401: ("auth_required", "bad_signature", "login_ended", "login_expired", "token_expired"),
    403: ("csrf_token_missing", "origin_not_allowed", "scope_required", "token_bound", "robot_refused"),
    404: (
        *("not_found", "address_not_found", "agent_not_found", "attachment_not_found", "delivery_not_found"),
        *("finalisation_not_found", "forget_not_found", "message_not_found", "pairing_not_found", "approval_not_found"),
        *("reply_not_found", "session_not_found", "token_not_found", "login_not_found"),
    ),
    405: ("method_not_allowed",),
    408: ("request_timeout",),
    409: (
        *("address_taken", "approval_changed", "approval_digest_needed", "idempotency_conflict", "identity_conflict"),
        *("operation_busy", "session_live", "session_moved"),
    ),
    413: ("message_too_large",),
    415: ("unsupported_media_type",),
    422: ("memory_write_blocked",),
    429: (
        *("mailbox_full", "rate_limited", "byte_rate_exceeded", "too_many_bytes", "too_many_chats"),
        *("too_many_requests", "refused", "too_many_attempts"),
    ),
}
NOT_REFUSED = frozenset({408, 413, 429})  # the request was cut off or postponed before it was judged
STATUS_BY_CODE = {code: status for status, codes in CODES_BY_STATUS.items() for code in codes}
STATUS_BY_REMEDY: Mapping[Remedy, int] = {
    Remedy.CORRECT: 400,
    Remedy.RETRY: 503,
    Remedy.REPAIR: 503,
    Remedy.REPORT: 500,
}


def status_of(error: HoldfastError) -> int:
    return STATUS_BY_CODE.get(error.code, STATUS_BY_REMEDY[error.remedy])


def is_refusal(error: HoldfastError) -> bool:
    """Whether an error refuses the attempt, in contrast to a failure or a request to retry."""
    status = status_of(error)
    return 400 <= status < 500 and status not in NOT_REFUSED


def headers_of(error: HoldfastError) -> dict[str, str]:
    """The response headers of an error: how to authenticate, or when to retry."""
    status = status_of(error)
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="holdfast"'}
    if status in {429, 503}:
        wait_ms = error.context.get("retry_after_ms", 0)
        wait_s = -(-wait_ms // 1000) if isinstance(wait_ms, int) else 0
        return {"Retry-After": str(max(RETRY_SOON_S, wait_s))}
    return {}
