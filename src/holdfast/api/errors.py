"""What can be wrong with a request, and the status of every error, in one table."""

from collections.abc import Mapping

from holdfast.kernel.errors import HoldfastError, InvalidInput, Remedy

RETRY_SOON_S = 1


class NotFound(HoldfastError):
    """There is no such route."""

    code = "not_found"
    remedy = Remedy.CORRECT
    hint = "GET /openapi.json lists every route."


class MethodNotAllowed(HoldfastError):
    """The route does not take this method."""

    code = "method_not_allowed"
    remedy = Remedy.CORRECT
    hint = "GET /openapi.json lists every route with its methods."


class InvalidHttp(InvalidInput):
    """What came is no well-formed HTTP request, or its head is too large."""

    code = "invalid_http"
    hint = "Send one well-formed request at a time, with a head of at most 64 KiB."


class UnsupportedParameter(InvalidInput):
    """The request asks for something that OpenAI's API has and this one does not."""

    code = "unsupported_parameter"
    hint = "Leave the parameter out."


class AuthRequired(HoldfastError):
    """The request has no valid token."""

    code = "auth_required"
    remedy = Remedy.CORRECT
    hint = "Send `Authorization: Bearer <token>`; the operator's is HOLDFAST_TOKEN, or `token` in a data folder."


class TokenExpired(AuthRequired):
    """The token was made for a limited time, which is over."""

    code = "token_expired"
    hint = "Make a new one with `holdfast token new`, or ask the operator for one."


class LoginEnded(AuthRequired):
    """The browser's login was ended, or this server does not know it."""

    code = "login_ended"
    hint = "Log in again, with a token or with the link that `holdfast up` prints."


class LoginExpired(LoginEnded):
    """The browser's login is too old, or was not used for too long."""

    code = "login_expired"


class TooManyAttempts(HoldfastError):
    """Too many wrong tokens came from this client."""

    code = "too_many_attempts"
    remedy = Remedy.RETRY
    hint = "Wait a minute, and check which program has an old token."


class TokenInUrl(HoldfastError):
    """A token in a URL ends up in logs and histories."""

    code = "token_in_url"
    remedy = Remedy.CORRECT
    hint = "Send the token in the header `Authorization: Bearer <token>` and choose a new one if this URL was logged."


class HostNotAllowed(HoldfastError):
    """The request names a host that this server is not (DNS rebinding)."""

    code = "host_not_allowed"
    remedy = Remedy.CORRECT
    hint = "Use http://127.0.0.1:<port> or http://localhost:<port>, or name the host with --public-host."


class OriginNotAllowed(HoldfastError):
    """A page of another origin asks in the name of whoever looks at it."""

    code = "origin_not_allowed"
    remedy = Remedy.CORRECT
    hint = "Open the page from this very server, or use a program with a token instead of a browser."


class CsrfTokenMissing(HoldfastError):
    """A browser's request would change something, and nothing shows that our own page made it."""

    code = "csrf_token_missing"
    remedy = Remedy.CORRECT
    hint = "Send the header X-Holdfast-CSRF with the value that GET /v1/me gives, or use a bearer token."


class TooManyConnections(HoldfastError):
    """More connections are open than this server holds."""

    code = "too_many_connections"
    remedy = Remedy.RETRY
    hint = "Close connections that are not used, and try again later."


class TooManyRequests(HoldfastError):
    """This client, or this token, has as many requests under way as one may have."""

    code = "too_many_requests"
    remedy = Remedy.RETRY
    hint = "Wait for an answer before asking more; [server.limits] says how many may be open at once."


class TooManyBytes(HoldfastError):
    """This client, or this token, is sending as many bytes at once as one may send."""

    code = "too_many_bytes"
    remedy = Remedy.RETRY
    hint = "Send fewer large requests at once; [server.limits] says how many bytes may be on their way."


class ByteRateExceeded(HoldfastError):
    """This client, or this token, has sent as many bytes as are taken within a minute."""

    code = "byte_rate_exceeded"
    remedy = Remedy.RETRY
    hint = "Come back after Retry-After; [server.limits] says how many bytes are taken within a minute."


class TooManyChats(HoldfastError):
    """This client, or this token, has begun as many new chats as are taken within an hour."""

    code = "too_many_chats"
    remedy = Remedy.RETRY
    hint = "Go on in a chat that exists, or raise client_chats_per_hour and token_chats_per_hour in [server.limits]."


class BodyMemoryFull(HoldfastError):
    """As many bytes of requests are in memory as the server holds."""

    code = "body_memory_full"
    remedy = Remedy.RETRY
    hint = "Send the request again after Retry-After; body_bytes_max in [server.limits] says how many bytes are held."


class SlowReader(HoldfastError):
    """The client does not read what it is sent."""

    code = "slow_reader"
    remedy = Remedy.CORRECT
    hint = "Nothing is lost: connect again and ask by the message's id."


class RequestTimeout(HoldfastError):
    """The body of the request did not arrive in time."""

    code = "request_timeout"
    remedy = Remedy.RETRY
    hint = "Send the request again."


class InternalError(HoldfastError):
    """Something went wrong inside; the log has the details."""

    code = "internal_error"
    remedy = Remedy.REPORT
    hint = "Look for http.failed in the log (holdfast.log of a data folder), and please report it."


class PublicBindRefused(HoldfastError):
    """Holdfast listens on loopback only, unless it was told who may come from elsewhere and under which name."""

    code = "public_bind_refused"
    remedy = Remedy.CORRECT
    hint = "Use --host 127.0.0.1 and a reverse proxy, or set HOLDFAST_TOKEN and name this server with --public-host."


class TokenTooShort(HoldfastError):
    """The operator's token has fewer than 32 characters, so it could be guessed."""

    code = "token_too_short"
    remedy = Remedy.CORRECT
    hint = (
        "Set HOLDFAST_TOKEN to 32 random characters or more (`openssl rand -hex 32`), or unset it and remove the file "
        "`token` of the data folder: a new one is made then."
    )


class TokenTooWeak(TokenTooShort):
    """The operator's token repeats a few characters, so it could be guessed."""

    code = "token_too_weak"


class PortInUse(HoldfastError):
    """Another program listens on the port."""

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
    """What the client should know beside the body: how to authenticate, when to come back."""
    status = status_of(error)
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="holdfast"'}
    if status in {429, 503}:
        wait_ms = error.context.get("retry_after_ms", 0)
        wait_s = -(-wait_ms // 1000) if isinstance(wait_ms, int) else 0
        return {"Retry-After": str(max(RETRY_SOON_S, wait_s))}
    return {}
