"""Slack's request signature, version 0. Pure.

Rule 1: the signature is checked on the raw bytes before they are parsed, and compared in constant time.
Rule 2: a request whose signed time is more than `AGE_MS_MAX` from now, past or future, is refused. A request replayed
        within that time is a duplicate, recognised by its event id.
Rule 3: every refusal is `BadSignature`. Its message helps the operator and reveals nothing to a forger.
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
_SIGNED = re.compile(r"v0=[0-9a-f]{64}")  # exactly one; two signatures joined by a proxy do not match
_SECONDS = re.compile(r"[0-9]{1,12}")


def check_signature(request: WebhookRequest, secret: str, now: Instant) -> None:
    """Raises `BadSignature`."""
    check_signed_head(request.headers, now)
    signature, timestamp = request.headers[SIGNATURE], request.headers[TIMESTAMP]
    if not hmac.compare_digest(signature, signed(secret, timestamp, request.body)):
        raise BadSignature("the signature does not match the request and the signing secret")


def check_signed_head(headers: Mapping[str, str], now: Instant) -> None:
    """Check the headers before the body is read. Raises `BadSignature`."""
    signature, timestamp = headers.get(SIGNATURE, ""), headers.get(TIMESTAMP, "")
    if not _SECONDS.fullmatch(timestamp):
        raise BadSignature(f"{TIMESTAMP} is missing or is not a time in seconds")
    if not _SIGNED.fullmatch(signature):
        raise BadSignature(f"{SIGNATURE} is missing or is not one signature of version v0")
    if abs(now - int(timestamp) * 1000) > AGE_MS_MAX:
        raise BadSignature(f"the request was signed more than {AGE_MS_MAX // 1000} seconds from now")


def signed(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the header `X-Slack-Signature`."""
    signed_text = b"v0:" + timestamp.encode("ascii") + b":" + body
    return f"v0={hmac.new(secret.encode(), signed_text, hashlib.sha256).hexdigest()}"
