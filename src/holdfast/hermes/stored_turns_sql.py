"""The stored turns of a session of Hermes, to find those that Hermes has undone."""

from collections.abc import Sequence

from holdfast.hermes.undone import StoredTurn
from holdfast.kernel.ids import SessionId
from holdfast.store.script import Script, rows, verb
from holdfast.turns.journal import AssistantSaid, Entry, UserSaid, is_undone
from holdfast.turns.journal_sql import chain, entry_of, undos

TURNS_MAX = 200  # the longest undo that is looked for
NEWEST = """
select seq, turn, kind, tokens, at, body from entry
 where session = :session and kind in ('user', 'assistant')
   and turn > (select turns from session where id = :session) - :limit
 order by seq"""


@verb
def list_stored_turns(session: SessionId) -> Script[Sequence[StoredTurn]]:
    """The newest turns of a session itself, oldest first, undone ones too; none if the session does not exist."""
    found = [entry_of(session, row) for row in (yield from rows(NEWEST, session=session, limit=TURNS_MAX))]
    voiding = yield from undos((yield from chain(session)))
    by_turn: dict[int, list[Entry]] = {}
    for entry in found:
        by_turn.setdefault(entry.turn, []).append(entry)
    return [_stored(n, said, is_gone=is_undone(said[0], voiding)) for n, said in by_turn.items()]


def _stored(n: int, said: Sequence[Entry], *, is_gone: bool) -> StoredTurn:
    user = next((one.body.text for one in said if isinstance(one.body, UserSaid)), "")
    assistant = next((one.body.text for one in said if isinstance(one.body, AssistantSaid)), "")
    return StoredTurn(n, user, assistant, said[0].at, is_gone)
