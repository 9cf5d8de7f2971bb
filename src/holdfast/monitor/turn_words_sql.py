"""Reading the words of one message and of its turn."""

from holdfast.kernel.ids import MessageId, SessionId
from holdfast.monitor.turn_words import ENTRIES_MAX, TurnWords
from holdfast.store.script import Script, one, rows, verb
from holdfast.turns.journal_sql import entry_of

SAID = "select body, session, turn from inbound where message = :message"
OF_TURN = """
select entry.seq, entry.turn, entry.kind, entry.tokens, entry.at, entry.body
  from turn cross join entry
 where entry.session = turn.session and entry.turn = turn.n and entry.seq between turn.first_seq and turn.last_seq
   and turn.session = :session and turn.n = :turn order by entry.seq limit :limit"""


@verb
def read_words(message: MessageId) -> Script[TurnWords]:
    """Empty for an unknown message."""
    found = yield from one(SAID, message=message)
    if found is None:
        return TurnWords(message="")
    said, session, turn = found
    entries = []
    if session is not None and turn is not None:
        of_turn = yield from rows(OF_TURN, session=session, turn=turn, limit=ENTRIES_MAX)
        entries = [entry_of(SessionId(session), row) for row in of_turn]
    return TurnWords(message=bytes(said).decode("utf-8", "replace"), entries=entries)
