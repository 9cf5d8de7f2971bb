"""Errors of HTTP requests, and the HTTP status of every error."""

from collections.abc import Mapping

from holdfast.kernel.errors import HoldfastError, InvalidInput, Remedy

RETRY_SOON_S = 1


class NotFound(HoldfastError):
    """The route does not exist."""

    code = "not_found"
    remedy = Remedy.CORRECT
    hint = "See GET /openapi.json for all routes."


class MethodNotAllowed(HoldfastError):
    """The route does not support this HTTP method."""

    code = "method_not_allowed"
    remedy = Remedy.CORRECT
    hint = "See GET /openapi.json for the methods of each route."


class InvalidHttp(InvalidInput):
    """The request is not well-formed HTTP, or its head is too large."""

    code = "invalid_http"
    hint = "Send one well-formed request at a time, with a head of at most 64 KiB."


class UnsupportedParameter(InvalidInput):
    """The request uses a parameter of OpenAI's API that Holdfast does not support."""

    code = "unsupported_parameter"
    hint = "Remove the parameter that the message names."


class AuthRequired(HoldfastError):
    """The request has no valid token."""

    code = "auth_required"
    remedy = Remedy.CORRECT
    hint = (
        "Send `Authorization: Bearer <token>`. The operator's token is in HOLDFAST_TOKEN, or in the file `token` of "
        "the data folder."
    )


class TokenExpired(AuthRequired):
    """The token has expired."""

    code = "token_expired"
    hint = "Create a new token with `holdfast token new`, or ask the operator for one."


class LoginEnded(AuthRequired):
    """The browser login was ended, or this server does not know it."""

    code = "login_ended"
    hint = "Log in again with a token or with the link that `holdfast up` prints."


class LoginExpired(LoginEnded):
    """The browser login is too old, or was idle for too long."""

    code = "login_expired"


class TooManyAttempts(HoldfastError):
    """This client sent too many requests with a wrong token."""

    code = "too_many_attempts"
    remedy = Remedy.RETRY
    hint = "Wait one minute, and check which program uses an outdated token."


class TokenInUrl(HoldfastError):
    """The URL contains a token, which ends up in logs and browser histories."""

    code = "token_in_url"
    remedy = Remedy.CORRECT
    hint = "Send the token in the header `Authorization: Bearer <token>`. If this URL was logged, revoke the token."


class HostNotAllowed(HoldfastError):
    """The Host header names a host that this server does not serve (protection against DNS rebinding)."""

    code = "host_not_allowed"
    remedy = Remedy.CORRECT
    hint = "Use http://127.0.0.1:<port> or http://localhost:<port>, or name the host with --public-host."


class OriginNotAllowed(HoldfastError):
    """The request was made by a web page of another origin."""

    code = "origin_not_allowed"
    remedy = Remedy.CORRECT
    hint = "Open the page that this server delivers, or use a program with a token instead of a browser."


class CsrfTokenMissing(HoldfastError):
    """A browser request that changes data has no valid CSRF token."""

    code = "csrf_token_missing"
    remedy = Remedy.CORRECT
    hint = "Send the header X-Holdfast-CSRF with the value that GET /v1/me returns, or use a bearer token."


class TooManyConnections(HoldfastError):
    """The server has reached its maximum number of open connections."""

    code = "too_many_connections"
    remedy = Remedy.RETRY
    hint = "Close unused connections and try again later, or raise connections_max in [server.limits]."


class TooManyRequests(HoldfastError):
    """The client or token has reached its maximum number of concurrent requests."""

    code = "too_many_requests"
    remedy = Remedy.RETRY
    hint = "Wait for a response before sending more; see client_requests_max and token_requests_max in [server.limits]."


class TooManyBytes(HoldfastError):
    """The client or token is uploading the maximum number of bytes at once."""

    code = "too_many_bytes"
    remedy = Remedy.RETRY
    hint = "Send fewer large requests at once; see client_body_bytes_max and token_body_bytes_max in [server.limits]."


class ByteRateExceeded(HoldfastError):
    """The client or token has uploaded the maximum number of bytes within a minute."""

    code = "byte_rate_exceeded"
    remedy = Remedy.RETRY
    hint = (
        "Retry after the time in Retry-After; see client_bytes_per_minute and token_bytes_per_minute in "
        "[server.limits]."
    )


class TooManyChats(HoldfastError):
    """The client or token has started the maximum number of new chats within an hour."""

    code = "too_many_chats"
    remedy = Remedy.RETRY
    hint = "Continue in an existing chat, or raise client_chats_per_hour and token_chats_per_hour in [server.limits]."


class BodyMemoryFull(HoldfastError):
    """The server holds the maximum number of request bytes in memory."""

    code = "body_memory_full"
    remedy = Remedy.RETRY
    hint = "Retry after the time in Retry-After, or raise body_bytes_max in [server.limits]."


class SlowReader(HoldfastError):
    """The client does not read the data that it is sent, so the connection was closed."""

    code = "slow_reader"
    remedy = Remedy.CORRECT
    hint = "Nothing is lost: reconnect and request the message by its id."


class RequestTimeout(HoldfastError):
    """The body of the request did not arrive in time."""

    code = "request_timeout"
    remedy = Remedy.RETRY
    hint = "Send the request again."


class InternalError(HoldfastError):
    """An unexpected error occurred in Holdfast."""

    code = "internal_error"
    remedy = Remedy.REPORT
    hint = "Find the event http.failed in holdfast.log in the data folder, and please report it."


class PublicBindRefused(HoldfastError):
    """Holdfast does not listen on a public address without a chosen token and a public host name."""

    code = "public_bind_refused"
    remedy = Remedy.CORRECT
    hint = "Use --host 127.0.0.1 behind a reverse proxy, or set HOLDFAST_TOKEN and name this server with --public-host."


class TokenTooShort(HoldfastError):
    """The operator's token has fewer than 32 characters and could be guessed."""

    code = "token_too_short"
    remedy = Remedy.CORRECT
    hint = (
        "Set HOLDFAST_TOKEN to 32 or more random characters (`openssl rand -hex 32`), or unset it and delete the file "
        "`token` in the data folder: Holdfast then creates a new token."
    )


class TokenTooWeak(TokenTooShort):
    """The operator's token consists of a few repeated characters and could be guessed."""

    code = "token_too_weak"


class PortInUse(HoldfastError):
    """Another program is listening on the port."""

    code = "port_in_use"
    remedy = Remedy.REPAIR
    hint = "Choose another port with --port, or stop the other program."


STATUS_BY_CODE: Mapping[str, int] = {
    "auth_required": 401,
    "bad_signature": 401,
    "login_ended": 401,
    "login_expired": 401,
    "token_expired": 401,
    "csrf_token_missing": 403,
    "origin_not_allowed": 403,
    "scope_required": 403,
    "token_bound": 403,
    "robot_refused": 403,
    "not_found": 404,
    "address_not_found": 404,
    "agent_not_found": 404,
    "attachment_not_found": 404,
    "delivery_not_found": 404,
    "finalisation_not_found": 404,
    "forget_not_found": 404,
    "message_not_found": 404,
    "pairing_not_found": 404,
    "approval_not_found": 404,
    "reply_not_found": 404,
    "session_not_found": 404,
    "token_not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "address_taken": 409,
    "approval_changed": 409,
    "approval_digest_needed": 409,
    "idempotency_conflict": 409,
    "identity_conflict": 409,
    "operation_busy": 409,
    "session_live": 409,
    "session_moved": 409,
    "message_too_large": 413,
    "unsupported_media_type": 415,
    "memory_write_blocked": 422,
    "mailbox_full": 429,
    "rate_limited": 429,
    "byte_rate_exceeded": 429,
    "too_many_bytes": 429,
    "too_many_chats": 429,
    "too_many_requests": 429,
    "refused": 429,
    "too_many_attempts": 429,
}
STATUS_BY_REMEDY: Mapping[Remedy, int] = {
    Remedy.CORRECT: 400,
    Remedy.RETRY: 503,
    Remedy.REPAIR: 503,
    Remedy.REPORT: 500,
}


def status_of(error: HoldfastError) -> int:
    return STATUS_BY_CODE.get(error.code, STATUS_BY_REMEDY[error.remedy])


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
