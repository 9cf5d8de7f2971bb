-- The search index. The journal holds all of its content, so it can be rebuilt at any time.

create table line (
  id integer primary key,             -- the scene's number and the line's position in it (ranking.py)
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
  at integer not null,
  size integer not null,
  asks integer not null,
  dated integer not null,
  stems text not null,                -- in their order, each with a space before and after it
  likeness integer not null,          -- a hash of stems, asks and speaker: lines that have the same are alike
  unique (delivery, seq)
) strict;

-- Which candidates of a query are alike, without reading them.
create index line_likeness on line (id, likeness);

create index line_by_session on line (session, id);
create index line_by_principal on line (principal);
create index line_by_voice on line (speaker, address);

-- The text of a line, apart from what ranking reads: UTF-8; lone surrogates survive.
create table body (id integer primary key, text blob not null) strict;

-- Who spoke where: the speakers that a question may name.
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

-- Sets of lines that are visible together (postings.py).
create table scope (
  id integer primary key,
  agent text not null,
  kind text not null,                 -- with postings: person, chat, session, note; without: in chat, in session
  name text not null,
  lines integer not null,
  unique (agent, kind, name)
) strict;

-- The scopes with postings that hold the lines of one without.
create table scope_part (
  whole integer not null,
  part integer not null,
  primary key (whole, part)
) strict, without rowid;

create index scope_part_by_part on scope_part (part);

-- The lines of a scope with a stem, in blocks (postings.py).
create table posting (
  token integer not null,             -- the scope's number and a hash of the stem
  block integer not null,             -- the last one takes new lines
  ids blob not null,
  primary key (token, block)
) strict, without rowid;

-- The newest lines, which have no postings yet.
create table fresh (id integer primary key) strict;
