-- The search index. The journal holds all of its content, so it can be rebuilt at any time.

create table line (
  id integer primary key,
  delivery text not null,
  seq integer not null,               -- of the entry; (delivery, seq) identifies the line
  kind text not null,                 -- said, note
  agent text not null,
  session text not null,
  address text not null,
  in_group integer not null,
  principal text not null,            -- the speaker of the turn; for a note its scope
  speaker text not null,
  target text not null,               -- of a note: memory, user
  turn integer not null,
  scene integer not null,             -- the id of the scene's first line
  position integer not null,          -- in the scene
  at integer not null,
  size integer not null,
  asks integer not null,
  dated integer not null,
  body blob not null,                 -- UTF-8; lone surrogates survive
  unique (delivery, seq)
) strict;

create index line_by_scene on line (scene, position);
create index line_by_session on line (session, id);
create index line_by_principal on line (principal);
create index line_by_voice on line (speaker, address);

-- Who spoke where: the speakers that a question may name, and the groups of each speaker.
create table voice (
  agent text not null,
  address text not null,
  speaker text not null,
  primary key (agent, address, speaker)
) strict, without rowid;

create index voice_by_speaker on voice (agent, speaker);

-- Every delivery that took effect. An erased one keeps only its id, so that it never comes back.
create table unit (
  delivery text primary key,
  agent text not null,
  session text not null,
  principal text not null,
  is_erased integer not null default 0
) strict, without rowid;

create table state (name text primary key, value integer not null) strict, without rowid;

-- Our own stems, separated by spaces; every other character is part of a word. `scope` holds the tokens of
-- scope_tokens.py, so that a word is looked up among few lines. A table of vectors would be a separate one.
create virtual table words using fts5 (stems, scope, tokenize = "ascii");
insert into words (words, rank) values ('secure-delete', 1);
