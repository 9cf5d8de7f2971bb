"""Upgrading an index of an earlier release in place; it holds everything that the new version needs.

Rule 1: an upgrade is one transaction. An interrupted upgrade leaves the old index.
Rule 2: the content of the old tables is overwritten, as all deleted text is.
"""

import apsw

from holdfast.providers.local.index_writer import index_fresh

# Notes were stored without their owner, which the journal knows. They are deleted, and the index is rebuilt from it.
_BEFORE_3 = """
update state set value = 1 where name = 'needs_rebuild' and exists (select 1 from line where kind = 'note');
delete from words where rowid in (select id from line where kind = 'note');
delete from line where kind = 'note';
"""
# Lines were numbered one by one, and FTS5 kept their words. Scenes keep their numbers.
_ASIDE = """
drop index if exists line_by_scene;
drop index if exists line_by_session;
drop index if exists line_by_principal;
drop index if exists line_by_voice;
drop index if exists voice_by_speaker;
alter table line rename to line_3;
alter table voice rename to voice_3;
alter table unit rename to unit_3;
alter table state rename to state_3;
alter table words rename to words_3;
"""
_TO_4 = """
insert into line
  select scene << 7 | position, delivery, seq, kind, agent, session, address, in_group, principal, speaker, target,
         turn, at, size, asks, dated, ' ' || words_3.stems || ' '
    from line_3 join words_3 on words_3.rowid = line_3.id;
insert into body select scene << 7 | position, body from line_3;
insert into voice select * from voice_3;
insert into unit select * from unit_3;
insert into state select * from state_3;
insert into fresh select id from line;
drop table line_3;
drop table voice_3;
drop table unit_3;
drop table state_3;
drop table words_3;
pragma user_version = 4;
"""


def upgrade(db: apsw.Connection, schema: str) -> None:
    """From versions 1 to 3 to 4; a second process finds it done. An `apsw.Error` leaves the index unchanged."""
    db.execute("begin immediate")
    try:
        version = db.pragma("user_version")
        if version in (1, 2):
            db.execute(_BEFORE_3)
        if version in (1, 2, 3):
            db.execute(_ASIDE)
            db.execute(schema)
            db.execute(_TO_4)
            index_fresh(db)
        db.execute("commit")
    except apsw.Error:
        if db.in_transaction:
            db.execute("rollback")
        raise
