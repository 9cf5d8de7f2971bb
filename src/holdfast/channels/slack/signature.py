"""Slack's signature of a request, version 0. Pure.

Rule 1: it is checked on the raw bytes, before anything of them is read, and compared in constant time.
Rule 2: a request is as old as its signed time says; beyond `AGE_MS_MAX`, into the past or the future, it is refused.
        Whatever is repeated within that time is found to be a duplicate by its event's id.
Rule 3: every refusal is `BadSignature`. Its sentence helps whoever set up the secret, and nobody who guesses at it.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

from holdfast.inbox.channel import WebhookRequest
from holdfast.kernel.errors import BadSignature
from holdfast.kernel.ids import Instant

SIGNATURE = "x-slack-signature"
TIMESTAMP = "x-slack-request-timestamp"
AGE_MS_MAX = 300_000
_SIGNED = re.compile(r"v0=[0-9a-f]{64}")  # exactly one: two that a proxy joined are none
_SECONDS = re.compile(r"[0-9]{1,12}")


def check_signature(request: WebhookRequest, secret: str, now: Instant) -> None:
    """Raises `BadSignature`."""
    check_signed_head(request.headers, now)
    signature, timestamp = request.headers[SIGNATURE], request.headers[TIMESTAMP]
    if not hmac.compare_digest(signature, signed(secret, timestamp, request.body)):
        raise BadSignature("the signature does not fit the request and the signing secret")


def check_signed_head(headers: Mapping[str, str], now: Instant) -> None:
    """What can be said before the body is read. Raises `BadSignature`."""
    signature, timestamp = headers.get(SIGNATURE, ""), headers.get(TIMESTAMP, "")
    if not _SECONDS.fullmatch(timestamp):
        raise BadSignature(f"{TIMESTAMP} is missing, or is no time in seconds")
    if not _SIGNED.fullmatch(signature):
        raise BadSignature(f"{SIGNATURE} is missing, or is not one signature of version v0")
    if abs(now - int(timestamp) * 1000) > AGE_MS_MAX:
        raise BadSignature(f"the request was signed more than {AGE_MS_MAX // 1000} seconds from now")


def signed(secret: str, timestamp: str, body: bytes) -> str:
    """What Slack writes into `X-Slack-Signature`."""
    words = b"v0:" + timestamp.encode("ascii") + b":" + body
    return f"v0={hmac.new(secret.encode(), words, hashlib.sha256).hexdigest()}"
