"""Finding a session by the beginning of its id, and the ones next to a mistyped id."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kernel.ids import SessionId
from holdfast.store.script import Query, Script, together, verb

FOUND_MAX = 20
NEAR_MAX = 2
FROM = "select id from session where id >= :id order by id limit :limit"
BELOW = "select id from session where id < :id order by id desc limit :limit"


class SessionMatches(NamedTuple):
    found: Sequence[SessionId]  # those whose ids begin so
    near: Sequence[SessionId]


@verb
def find_sessions(wanted: str) -> Script[SessionMatches]:
    following, before = yield from together(
        Query(FROM, {"id": wanted, "limit": FOUND_MAX}), Query(BELOW, {"id": wanted, "limit": NEAR_MAX})
    )
    after = [SessionId(row[0]) for row in following]
    near = [*(SessionId(row[0]) for row in before[::-1]), *after[:NEAR_MAX]]
    return SessionMatches(found=[one for one in after if one.startswith(wanted)], near=near)
