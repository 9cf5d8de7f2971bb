-- Drafts: replies that are shown in their chats while they are made. Ids only: no word of a draft is stored.

-- One at a time for each turn. `fence` is that of the claim that writes to it, until `held_until`; `receipt` is the
-- platform's id of it. When a reply takes its place, the row goes into the reply.
create table draft (
  id text primary key,
  session text not null,
  turn int8 not null,
  address text not null,
  fence int8 not null,
  state text not null,
  receipt text,
  held_until int8 not null,
  at int8 not null
) /*strict*/;
create unique index draft_turn on draft (session, turn);

-- What became of the draft, and its id.
alter table reply add column draft text;
alter table reply add column draft_id text;
create index reply_draft on reply (n) where draft = 'standing';
