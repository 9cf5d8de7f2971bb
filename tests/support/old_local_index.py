"""Index files of earlier releases, made from a file of this one."""

from pathlib import Path

import apsw

from holdfast.providers.local import index_file

_RELEASE_4 = """
drop index line_likeness;
alter table line drop column likeness;
pragma user_version = 4;
"""
_RELEASE_3 = """
create table old_line (
  id integer primary key, delivery text not null, seq integer not null, kind text not null, agent text not null,
  session text not null, address text not null, in_group integer not null, principal text not null,
  speaker text not null, target text not null, turn integer not null, scene integer not null,
  position integer not null, at integer not null, size integer not null, asks integer not null,
  dated integer not null, body blob not null, unique (delivery, seq)
) strict;
create table numbered as
  select id, row_number() over (order by id) as n,
         min(row_number) over (partition by id >> 7) as scene, id & 127 as position
    from (select id, row_number() over (order by id) as row_number from line);
insert into old_line
  select n, delivery, seq, kind, agent, session, address, in_group, principal, speaker, target, turn, scene, position,
         at, size, asks, dated, body.text
    from numbered join line using (id) join body using (id);
create virtual table words using fts5 (stems, scope, tokenize = "ascii");
insert into words (words, rank) values ('secure-delete', 1);
insert into words (rowid, stems, scope)
  select n, trim(stems), '0123456789 abcdef0123' from numbered join line using (id);
drop table numbered;
drop table fresh;
drop table posting;
drop table scope_part;
drop table scope;
drop table body;
drop table line;
alter table old_line rename to line;
create index line_by_scene on line (scene, position);
create index line_by_session on line (session, id);
create index line_by_principal on line (principal);
create index line_by_voice on line (speaker, address);
pragma user_version = 3;
"""
_RELEASE_2 = "pragma user_version = 2"
_RELEASE_1 = """
create virtual table old using fts5 (stems, tokenize = "ascii");
insert into old (rowid, stems) select rowid, stems from words;
drop table words;
alter table old rename to words;
insert into words (words, rank) values ('secure-delete', 1);
drop index voice_by_speaker;
pragma user_version = 1;
"""


def turn_back(folder: Path, version: int) -> None:
    """Give the index the layout of an earlier version.

    Version 4 did not say which lines are alike, 3 kept words in FTS5, 2 had notes of no owner, 1 no scopes.
    """
    db = apsw.Connection(str(folder / index_file.NAME))
    for before, change in ((4, _RELEASE_4), (3, _RELEASE_3), (2, _RELEASE_2), (1, _RELEASE_1)):
        if version <= before:
            db.execute(change)
    db.close()
