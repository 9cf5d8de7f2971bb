"""Slack's Web API: one call, and what its failure proves.

Rule 1: the SDK's retries are switched off. Its default handler posts again after a lost connection, which duplicates
        messages.
Rule 2: a failed call is a value that says whether the call may have been executed.
Rule 3: the SDK's log is switched off: its lines hold people's messages and connection tickets.
Rule 4: the SDK hides the status, headers and body of an answer that is not JSON. A trace reads them, for the operator
        (kernel/vendor_error.py).
"""

import logging
import re
from collections.abc import Awaitable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Enum
from types import SimpleNamespace
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from holdfast.channels.slack.answers import ANSWERS
from holdfast.kernel.status_table import Meaning, answer_to
from holdfast.kernel.urls import needs_no_proxy
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError, texts_in, vendor_error

CALL_S = 30
CONNECT_S = 10
LIMITED_MS = 1_000  # if Slack names no time
ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{0,79}")  # the form of Slack's error codes
SILENT_LOG = logging.getLogger("holdfast.channels.slack.sdk")
SILENT_LOG.setLevel(logging.CRITICAL + 1)

BAD_TOKEN = frozenset(
    {
        *("invalid_auth", "not_authed", "account_inactive", "token_expired", "token_revoked", "no_permission"),
        *("missing_scope", "not_allowed_token_type", "org_login_required", "ekm_access_denied", "access_denied"),
        *("two_factor_setup_required", "team_access_not_granted", "accesslimited"),
    }
)
LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
UNCLEAR = frozenset({"fatal_error", "internal_error", "service_unavailable"})  # the call may have been executed in part


class SlackFailureKind(Enum):
    UNREACHED = "unreached"  # no connection was made, so nothing was sent
    LIMITED = "limited"
    BAD_TOKEN = "bad_token"  # noqa: S105 - the operator must act
    REFUSED = "refused"
    UNCLEAR = "unclear"  # the answer was lost or is no verdict


@dataclass(frozen=True, slots=True)
class SlackFailure:
    kind: SlackFailureKind
    code: str  # Slack's error code, or our own text; never a token
    retry_after_ms: int = 0
    vendor: VendorError = field(default=NO_ANSWER, compare=False, kw_only=True)

    @property
    def is_temporary(self) -> bool:
        """Whether the same call may succeed later by itself."""
        return self.kind in (SlackFailureKind.UNREACHED, SlackFailureKind.LIMITED, SlackFailureKind.UNCLEAR)


class SlackWebApi:
    def __init__(self, token: str, api_url: str) -> None:
        self._token = token
        self._api_url = api_url
        self._client: AsyncWebClient | None = None
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    @property
    def api_url(self) -> str:
        return self._api_url

    @property
    def bearer(self) -> dict[str, str]:
        """The headers for downloading files, which are not methods of the API."""
        return {"Authorization": f"Bearer {self._token}"}

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=CALL_S, sock_connect=CONNECT_S)
            self._session = aiohttp.ClientSession(timeout=timeout, trace_configs=[_watched()])
        return self._session

    @property
    def client(self) -> AsyncWebClient:
        if self._client is None:
            self._client = AsyncWebClient(
                token=self._token,
                base_url=self._api_url,
                session=self.session,
                logger=SILENT_LOG,
                retry_handlers=[],
            )
            if needs_no_proxy(self._api_url):
                self._client.proxy = None  # which the SDK reads from the environment
        return self._client

    async def get(self, method: str, **params: object) -> dict[str, Any] | SlackFailure:
        return await self._call(method, http_verb="GET", params=params)

    async def post(self, method: str, body: dict[str, object]) -> dict[str, Any] | SlackFailure:
        return await self._call(method, json=body)

    async def _call(self, method: str, **request: Any) -> dict[str, Any] | SlackFailure:  # noqa: ANN401
        if self._is_closed:
            return SlackFailure(SlackFailureKind.UNREACHED, "the channel is closed")
        sent = texts_in(request.get("json"))
        answer = await attempted(self.client.api_call(method, **request), sent=sent, secrets=[self._token])
        if isinstance(answer, SlackFailure):
            return answer
        return (
            answer.data
            if isinstance(answer.data, dict)
            else SlackFailure(SlackFailureKind.UNCLEAR, "the answer is not a JSON object")
        )

    async def close(self) -> None:
        self._is_closed = True
        if self._session is not None:
            await self._session.close()


@dataclass(slots=True)
class SlackAnswer:
    """The latest answer to a call, unparsed."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


_seen: ContextVar[SlackAnswer | None] = ContextVar("seen", default=None)


async def attempted(
    call: Awaitable[Any], *, sent: Collection[str] = (), secrets: Collection[str] = ()
) -> Any | SlackFailure:  # noqa: ANN401 - the SDK's methods say no more
    """The call's result, or the failure that its exception means, without any text of `sent` and `secrets`."""
    seen = SlackAnswer()
    token = _seen.set(seen)
    try:
        answer = await _attempted(call)
    finally:
        _seen.reset(token)
    if not isinstance(answer, SlackFailure):
        return answer
    vendor = vendor_error(seen.status, seen.headers, seen.body, sent=sent, code_in="error", secrets=secrets)
    return replace(answer, vendor=vendor)


async def _attempted(call: Awaitable[Any]) -> Any | SlackFailure:  # noqa: ANN401
    try:
        return await call
    except SlackApiError as error:
        return _failure_of(error.response)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        return SlackFailure(SlackFailureKind.UNREACHED, f"Slack could not be reached ({type(error).__name__})")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return SlackFailure(SlackFailureKind.UNCLEAR, f"the answer was lost ({type(error).__name__})")
    except (
        SlackClientError,
        ValueError,
        AttributeError,
    ) as error:  # AttributeError: the SDK, of an answer in plain text
        return SlackFailure(SlackFailureKind.UNCLEAR, f"the answer is not Slack's ({type(error).__name__})")


def _failure_of(answer: object) -> SlackFailure:
    """The failure of a call that Slack answered. For broken JSON, the SDK passes aiohttp's response instead."""
    if not isinstance(answer, AsyncSlackResponse):
        return SlackFailure(SlackFailureKind.UNCLEAR, "the answer is not JSON")
    said = answer.data if isinstance(answer.data, dict) else {}
    code = str(said.get("error") or "") if said.get("ok") is False else ""
    meaning = answer_to(ANSWERS, answer.status_code, own=bool(code)).meaning
    shown = code if ERROR_CODE.fullmatch(code) else ""  # other text may quote a message
    if meaning is Meaning.NOT_SENT or code in LIMITED:
        return SlackFailure(SlackFailureKind.LIMITED, shown or "ratelimited", _retry_after_ms(answer.headers))
    if meaning is Meaning.DOUBTFUL or code in UNCLEAR:
        return SlackFailure(SlackFailureKind.UNCLEAR, shown or f"HTTP {answer.status_code}")
    return SlackFailure(
        SlackFailureKind.BAD_TOKEN if code in BAD_TOKEN else SlackFailureKind.REFUSED,
        shown or "an error without a code",
    )


def _retry_after_ms(headers: Any) -> int:  # noqa: ANN401 - the SDK passes aiohttp's headers
    value = str(headers.get("Retry-After", ""))
    return int(value) * 1000 if value.isascii() and value.isdigit() and len(value) < 7 else LIMITED_MS


def _watched() -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(_on_answer)
    return trace


async def _on_answer(_: aiohttp.ClientSession, __: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
    """Read the answer to a call. A download has no `_seen` and reads its own body."""
    seen, answer = _seen.get(), end.response
    if seen is not None:
        seen.status, seen.headers = answer.status, answer.headers
        seen.body = await answer.read()
