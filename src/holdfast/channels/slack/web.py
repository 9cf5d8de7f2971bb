"""Slack's Web API: one call, and what its failure proves.

A failed call is a value that says whether the call may have been executed, with Slack's answer for the operator
(kernel/vendor_error.py).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import httpx

from holdfast.channels.http import FAILED, NOT_SENT, HttpConnections, proxy_for
from holdfast.channels.slack.answers import ANSWERS
from holdfast.kernel.vendor_error import NO_ANSWER, Meaning, VendorError, answer_to, texts_in, vendor_error

CALL_S = 30
ANSWER_BYTES_MAX = 32 * 1024 * 1024
LIMITED_MS = 1_000  # if Slack names no time
JSON_UTF_8 = {"Content-Type": "application/json; charset=utf-8"}
ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{0,79}")  # the form of Slack's error codes

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
        self.api_url = api_url
        self.proxy = proxy_for(api_url)
        self._http = HttpConnections(self.proxy)
        self._is_closed = False

    async def get(self, method: str, **params: Any) -> dict[str, Any] | SlackFailure:  # noqa: ANN401
        return await self._call("GET", method, self._token, params=params)

    async def post(self, method: str, body: dict[str, object]) -> dict[str, Any] | SlackFailure:
        return await self._call("POST", method, self._token, body)

    async def open_socket(self, app_token: str) -> dict[str, Any] | SlackFailure:
        """The address of a socket mode connection, which is valid once."""
        return await self._call("POST", "apps.connections.open", app_token, {})

    async def download(self, url: str, *, bytes_max: int, tries_max: int) -> bytes | None:
        headers = {"Authorization": f"Bearer {self._token}"}
        return await self._http.fetch(url, total_s=CALL_S, bytes_max=bytes_max, tries_max=tries_max, headers=headers)

    async def close(self) -> None:
        self._is_closed = True
        await self._http.close()

    async def _call(
        self,
        verb: str,
        method: str,
        token: str,
        body: dict[str, object] | None = None,
        params: dict[str, Any] | None = None,
    ) -> dict[str, Any] | SlackFailure:
        if self._is_closed:
            return SlackFailure(SlackFailureKind.UNREACHED, "the channel is closed")
        content = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {token}", **({} if body is None else JSON_UTF_8)}
        request = httpx.Request(verb, f"{self.api_url}/{method}", params=params, content=content, headers=headers)
        try:
            response, raw = await self._http.exchange(request, CALL_S, ANSWER_BYTES_MAX)
        except NOT_SENT as error:
            return SlackFailure(SlackFailureKind.UNREACHED, f"Slack could not be reached ({type(error).__name__})")
        except FAILED as error:
            return SlackFailure(SlackFailureKind.UNCLEAR, f"the answer was lost ({type(error).__name__})")
        answer = _decoded(raw)
        if response.status_code == 200 and answer.get("ok"):
            return answer
        failure = _failure_of(response.status_code, response.headers, answer)
        vendor = vendor_error(
            response.status_code, response.headers, raw, sent=texts_in(body), code_in="error", secrets=[token]
        )
        return replace(failure, vendor=vendor)


def _decoded(raw: bytes | None) -> dict[str, Any]:
    """The JSON object of an answer; empty if the answer is none."""
    try:
        answer = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _failure_of(status: int, headers: Mapping[str, str], answer: dict[str, Any]) -> SlackFailure:
    code = str(answer.get("error") or "") if answer.get("ok") is False else ""
    meaning = answer_to(ANSWERS, status, own=bool(code)).meaning
    shown = code if ERROR_CODE.fullmatch(code) else ""  # other text may quote a message
    if meaning is Meaning.NOT_SENT or code in LIMITED:
        return SlackFailure(SlackFailureKind.LIMITED, shown or "ratelimited", _retry_after_ms(headers))
    if meaning is Meaning.DOUBTFUL or code in UNCLEAR:
        why = f"HTTP {status}" if answer or status != 200 else "the answer is not JSON"
        return SlackFailure(SlackFailureKind.UNCLEAR, shown or why)
    kind = SlackFailureKind.BAD_TOKEN if code in BAD_TOKEN else SlackFailureKind.REFUSED
    return SlackFailure(kind, shown or "an error without a code")


def _retry_after_ms(headers: Mapping[str, str]) -> int:
    value = headers.get("Retry-After", "")
    return int(value) * 1000 if value.isascii() and value.isdigit() and len(value) < 7 else LIMITED_MS
