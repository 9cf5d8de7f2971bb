-- An agent's own memory: operations that are kept for ever, and which of them hold.

-- One row per stream, locked while a batch is judged and written; `head` is its newest operation.
create table memory (
  stream text primary key,
  agent text not null,
  subject text not null,
  head int8 not null
) /*strict*/;
create unique index memory_subject on memory (agent, subject);

-- Every batch that was applied, with one number per change (0: found already), so that a repeated one is known even
-- when it wrote nothing.
create table memory_batch (
  stream text not null,
  origin text not null,
  seqs text not null,
  at int8 not null,
  primary key (stream, origin)
) /*strict*/ /*clustered*/;

-- Append-only but for `live`. `place` is the order of entries: the operation that first added the entry.
create table memory_op (
  stream text not null,
  seq int8 not null,
  agent text not null,
  subject text not null,
  target text not null,
  op text not null,
  place int8 not null,
  text bytes not null,
  old_text bytes not null,
  origin text not null,
  position int8 not null,
  written_by text not null,
  principal text not null,
  live int8 not null,
  at int8 not null,
  unique (stream, seq),
  unique (stream, origin, position)
) /*strict*/;
create unique index memory_live on memory_op (stream, place) where live = 1;
