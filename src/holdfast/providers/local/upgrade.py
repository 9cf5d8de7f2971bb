"""Upgrading an index of an earlier release in place; it holds everything that the new version needs.

Rule 1: an upgrade is one transaction. An interrupted upgrade leaves the old index.
Rule 2: the content of the old table is overwritten, as all deleted text is.
"""

from typing import Any

import apsw

from holdfast.providers.local.scope_tokens import line_scopes

_TO_2 = """
create index voice_by_speaker on voice (agent, speaker);
alter table words rename to words_1;
create virtual table words using fts5 (stems, scope, tokenize = "ascii");
insert into words (words, rank) values ('secure-delete', 1);
insert into words (rowid, stems, scope)
  select line.id, words_1.stems,
         scopes_of(line.kind, line.agent, line.session, line.address, line.in_group, line.principal)
    from line join words_1 on words_1.rowid = line.id;
drop table words_1;
pragma user_version = 2;
"""
# Notes were stored without their owner, which the journal knows. They are deleted, and the index is rebuilt from it.
_TO_3 = """
update state set value = 1 where name = 'needs_rebuild' and exists (select 1 from line where kind = 'note');
delete from words where rowid in (select id from line where kind = 'note');
delete from line where kind = 'note';
pragma user_version = 3;
"""


def upgrade(db: apsw.Connection) -> None:
    """From version 1 or 2 to 3; a second process finds it done. An `apsw.Error` leaves the index unchanged."""
    db.create_scalar_function("scopes_of", _scopes_of, 6, deterministic=True)
    db.execute("begin immediate")
    try:
        if db.pragma("user_version") == 1:
            db.execute(_TO_2)
        if db.pragma("user_version") == 2:
            db.execute(_TO_3)
        db.execute("commit")
    except apsw.Error:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _scopes_of(*columns: Any) -> str:  # noqa: ANN401 - values from SQLite
    kind, agent, session, address, in_group, principal = columns
    found = line_scopes(
        kind=kind, agent=agent, session=session, address=address, in_group=bool(in_group), principal=principal
    )
    return " ".join(found)
