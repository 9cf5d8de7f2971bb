"""Reading from Hermes' state.db what was undone in a session. The database is opened with `mode=ro`, never changed.

A database that is missing, locked or damaged, or of a release before 0.16, says nothing: then no turn is undone. The
doctor examines a database; this reader only asks it.
"""

from contextlib import closing
from pathlib import Path

import apsw

from holdfast.hermes.importing.rows import text_of_content
from holdfast.hermes.undone import Exchange, MessageRow, exchanges_of

BUSY_MS = 2_000
ROWS_MAX = 4_000  # the newest of a session
HAS_UNDOS = "select 1 from sessions where id = ? and rewind_count > 0"
COLUMNS = "select name from pragma_table_info('messages')"
ROWS = """
select role, content, timestamp, active = 0 and not {compacted} from messages
 where session_id = ? and role in ('user', 'assistant') order by id desc limit ?"""


def read_exchanges(database: Path, session: str) -> list[Exchange]:
    """The exchanges of a session in which something was undone; none otherwise."""
    try:
        with closing(_opened(database)) as db:
            if not db.execute(HAS_UNDOS, (session,)).fetchall():
                return []
            columns = {str(row[0]) for row in db.execute(COLUMNS)}
            query = ROWS.format(compacted="compacted" if "compacted" in columns else "0")
            found = db.execute(query, (session, ROWS_MAX)).fetchall()
    except apsw.Error:
        return []
    rows = (MessageRow(role == "user", _text(content), _ms(at), bool(gone)) for role, content, at, gone in found)
    return exchanges_of(reversed(list(rows)))


def _opened(database: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(f"{database.as_uri()}?mode=ro", flags=flags)
    db.set_busy_timeout(BUSY_MS)
    return db


def _text(content: object) -> str:
    return text_of_content(content) if isinstance(content, str) else ""


def _ms(at: object) -> int:
    return round(at * 1_000) if isinstance(at, int | float) else -1
