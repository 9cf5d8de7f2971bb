"""What each status of a write to Honcho proves.

Honcho (3.0.12) answers an error with `{"detail": ...}` and no other field. These responses are its own: 500 with the
one sentence of its handler for unexpected errors, 401 and 403 with one of its sentences about tokens, 404 that names
the missing object, 409 that names the object it could not create, 400 about observers, and 422 with the list of its
validator. Honcho itself never answers 429, 502, 503 or 504; those come from a proxy in front of it. A message or a
conclusion has no client id and is stored twice if it lands twice, so a write stays uncertain unless the response is
provably Honcho's own.
"""

import re
from collections.abc import Mapping

from holdfast.kernel.vendor_error import Answer, Meaning, only

ABOUT_TOKENS = frozenset(
    {
        *("No access token provided", "Invalid JWT", "JWT expired", "Authentication failed"),
        *("Unauthorized access to resource", "JWT not permissioned for this resource"),
        *("Resource requires admin privileges", "Not authorized to access this resource"),
    }
)
SENTENCES = {
    400: re.compile(r"Cannot create session "),
    404: re.compile(r"(Workspace|Session|Peer|Message|Conclusion|Document|Collection|Resource)\b.* not found\b"),
    409: re.compile(r"Unable to create or get (workspace|session|peers|collection)\b"),
    500: re.compile(r"An unexpected error occurred\Z"),
}
ANSWERS = (
    Answer(
        only(500),
        Meaning.SUSPECT,
        "Honcho rolled it back: its database is down, a lock was held too long, or the text made it fail",
        own=True,
    ),
    Answer(only(401, 403), Meaning.UNREACHABLE, "Honcho does not accept the key", own=True),
    Answer(
        only(404),
        Meaning.UNREACHABLE,
        "an object that it needs does not exist, or the session is being deleted at Honcho",
        own=True,
    ),
    Answer(
        only(409), Meaning.UNREACHABLE, "another request created the same session or peer at the same time", own=True
    ),
    Answer(only(400, 422), Meaning.REFUSED, "Honcho refused the content", own=True),
    Answer(
        only(400, 413, 414, 415, 422, 431),
        Meaning.UNCERTAIN_SUSPECT,
        "a proxy before Honcho refused the request, perhaps as too large",
        own=False,
    ),
    Answer(only(429), Meaning.UNCERTAIN, "a proxy before Honcho asks to slow down"),
    Answer(
        (range(300, 400),),
        Meaning.UNCERTAIN,
        "Honcho's url answers with a redirect, which is not followed: correct url",
    ),
    Answer((range(400, 500),), Meaning.UNCERTAIN, "a proxy before Honcho answered: check url and the proxies"),
    Answer((range(500, 600),), Meaning.UNCERTAIN, "a proxy before Honcho failed, or gave up waiting"),
)


def is_own(status: int, message: object, body: object) -> bool:
    """Whether only Honcho itself gives this response. `message` and `body` are as the SDK parsed them."""
    if status in SENTENCES:
        return isinstance(message, str) and SENTENCES[status].match(message) is not None
    if status in (401, 403):
        return isinstance(message, str) and message in ABOUT_TOKENS
    return status == 422 and isinstance(body, Mapping) and _lists_faults(body)


def _lists_faults(body: Mapping[str, object]) -> bool:
    """Whether the body is the list of Honcho's validator. The SDK adds `message`, a copy of `detail`."""
    detail = body.get("detail")
    if set(body) != {"message", "detail"} or not isinstance(detail, list) or not detail:
        return False
    return all(isinstance(one, Mapping) and {"loc", "msg", "type"} <= set(one) for one in detail)
