"""An index of an earlier release, brought up to date where it lies: it holds all that the new one needs.

Rule 1: one transaction. Whoever is stopped in the middle finds the old index again.
Rule 2: what the old table held is overwritten, as everything that is deleted here.
"""

from typing import Any

import apsw

from holdfast.providers.local.scopes import line_scopes

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
# Notes were kept without whom they belong to, which the journal knows. They go, and the index is filled anew from it.
_TO_3 = """
update state set value = 1 where name = 'needs_rebuild' and exists (select 1 from line where kind = 'note');
delete from words where rowid in (select id from line where kind = 'note');
delete from line where kind = 'note';
pragma user_version = 3;
"""


def upgrade(db: apsw.Connection) -> None:
    """From version 1 or 2 to 3; a second process finds it done. Raises `apsw.Error` with nothing changed."""
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


def _scopes_of(*columns: Any) -> str:  # noqa: ANN401 - as SQLite hands them over
    kind, agent, session, address, in_group, principal = columns
    found = line_scopes(
        kind=kind, agent=agent, session=session, address=address, in_group=bool(in_group), principal=principal
    )
    return " ".join(found)
