"""What each status of a write to Honcho proves.

Honcho (3.0.12) answers an error with `{"detail": ...}` and nothing else. Its own are: 500 with the one sentence that
its handler for unforeseen errors has, 401 and 403 with one of its sentences about tokens, 404 that names what was not
found, 409 that names what it could not make, 400 about observers, and 422 with the list of faults that its validator
makes. It never answers 429, 502, 503 or 504 by itself, so those always come from something before it. A message and a
conclusion have no id of ours: what lands twice is there twice, so anything that is not provably Honcho's own leaves the
write uncertain.
"""

import re
from collections.abc import Mapping

from holdfast.kernel.status_table import Answer, Meaning, only

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
        statuses=only(500),
        own=True,
        meaning=Meaning.SUSPECT,
        says="Honcho rolled it back: a database that is down, a lock held too long, or words that it fails on",
    ),
    Answer(
        statuses=only(401, 403),
        own=True,
        meaning=Meaning.UNREACHABLE,
        says="Honcho does not accept the key",
    ),
    Answer(
        statuses=only(404),
        own=True,
        meaning=Meaning.UNREACHABLE,
        says="something that it needs is not there, or the session is being deleted at Honcho",
    ),
    Answer(
        statuses=only(409),
        own=True,
        meaning=Meaning.UNREACHABLE,
        says="another request made the same session or peer at the same time",
    ),
    Answer(
        statuses=only(400, 422),
        own=True,
        meaning=Meaning.REFUSED,
        says="Honcho refused the content",
    ),
    Answer(
        statuses=only(400, 413, 414, 415, 422, 431),
        own=False,
        meaning=Meaning.UNCERTAIN_SUSPECT,
        says="something before Honcho refused the request, perhaps as too large",
    ),
    Answer(
        statuses=only(429),
        meaning=Meaning.UNCERTAIN,
        says="something before Honcho asks to slow down",
    ),
    Answer(
        statuses=(range(300, 400),),
        meaning=Meaning.UNCERTAIN,
        says="Honcho's url answers with a redirect, which is not followed: correct url",
    ),
    Answer(
        statuses=(range(400, 500),),
        meaning=Meaning.UNCERTAIN,
        says="something before Honcho answered: check url and the way to it",
    ),
    Answer(
        statuses=(range(500, 600),),
        meaning=Meaning.UNCERTAIN,
        says="a proxy before Honcho failed, or gave up waiting",
    ),
)


def is_own(status: int, message: object, body: object) -> bool:
    """Whether only Honcho itself answers so. `message` and `body` are what the SDK made of the answer."""
    if status in SENTENCES:
        return isinstance(message, str) and SENTENCES[status].match(message) is not None
    if status in (401, 403):
        return isinstance(message, str) and message in ABOUT_TOKENS
    return status == 422 and isinstance(body, Mapping) and _lists_faults(body)


def _lists_faults(body: Mapping[str, object]) -> bool:
    """The list of a validator that has read the request. The SDK adds `message`, a copy of `detail`."""
    detail = body.get("detail")
    if set(body) != {"message", "detail"} or not isinstance(detail, list) or not detail:
        return False
    return all(isinstance(one, Mapping) and {"loc", "msg", "type"} <= set(one) for one in detail)
