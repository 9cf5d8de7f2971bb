-- The durable core. One file for both engines: `int8`, `bytes` and `float8` are mapped by each of them.
-- Times are UTC milliseconds, booleans are 0 or 1, bodies are bytes. A `clustered` table of small rows is kept in the
-- order of its key where the engine can: one page is written instead of two.

create table secret (
  key text primary key,
  value bytes not null
) /*strict*/;

create table proof (
  id int8 primary key,
  at int8 not null
) /*strict*/;

create table node (
  id text primary key,
  host text not null,
  started_at int8 not null,
  heartbeat_at int8 not null
) /*strict*/;

-- The place of a conversation. `ready_at` is set while there is mail to process or a turn to resume; `claim` is the
-- caller's name for the newest claim, so that a claim whose answer was lost can be asked for again.
create table mailbox (
  id text primary key,
  agent text not null,
  address text not null,
  session_id text unique,
  fence int8 not null default 0,
  owner text,
  claim text,
  claimed_at int8,
  last_seq int8 not null default 0,
  depth int8 not null default 0,
  ready_at int8,
  window_at int8 not null default 0,
  window_count int8 not null default 0,
  unattended int8 not null default 0
) /*strict*/;
create index mailbox_ready on mailbox (ready_at) where owner is null and ready_at is not null;
create index mailbox_owned on mailbox (owner) where owner is not null;

create table address (
  address text primary key,
  mailbox_id text not null
) /*strict*/ /*clustered*/;

create table inbound (
  message text primary key,
  mailbox text not null,
  seq int8 not null,
  account text not null,
  conversation text not null,
  event_id text not null,
  body_hash bytes not null,
  principal text not null,
  channel text not null,
  kind text not null,
  human int8 not null,
  hop int8 not null,
  body bytes not null,
  state text not null,
  reason text,
  session text,
  turn int8,
  at int8 not null,
  unique (account, conversation, event_id)
) /*strict*/;
create index inbound_open on inbound (mailbox, seq) where state in ('waiting', 'in_turn');
create index inbound_session on inbound (session, turn) where session is not null;
create index inbound_old on inbound (at) where state not in ('waiting', 'in_turn');

-- What remains of a pruned inbound: keyed hashes, so that a late redelivery is still known.
create table tombstone (
  hash bytes primary key,
  body_hash bytes not null,
  message text not null,
  state text not null
) /*strict*/ /*clustered*/;

create table session (
  id text primary key,
  agent text not null,
  mailbox text,
  principal text not null,
  purpose text not null,
  parent_id text,
  fork_seq int8 not null default 0,
  fork_n int8 not null default 0,
  fork_turn int8 not null default 0,
  title text,
  title_key text,
  state text not null,
  epoch int8 not null default 1,
  last_seq int8 not null,
  committed_seq int8 not null,
  turns int8 not null,
  open_turn int8,
  summaries int8 not null,
  undo_count int8 not null default 0,
  token_ratio float8 not null default 1.0,
  opened_at int8 not null,
  active_at int8 not null,
  closed_at int8,
  reason text
) /*strict*/;
create index session_mailbox on session (mailbox);
create index session_agent on session (agent, id);
create index session_opened on session (opened_at, id);
create index session_title on session (agent, title_key) where title_key is not null;
create index session_parent on session (parent_id) where parent_id is not null;

create table turn (
  session text not null,
  n int8 not null,
  key text,
  phase text not null,
  attempt int8 not null,
  fence int8 not null,
  lease_fence int8 not null,
  mailbox text,
  place text not null,
  principal text not null,
  first_seq int8 not null,
  last_seq int8 not null,
  tokens_in int8 not null default 0,
  tokens_out int8 not null default 0,
  stop_at int8,
  reason text,
  opened_at int8 not null,
  closed_at int8,
  primary key (session, n)
) /*strict*/ /*clustered*/;
create unique index turn_key on turn (session, key) where key is not null;

-- Append-only. A rowid table on purpose: WITHOUT ROWID doubles the log.
create table entry (
  session text not null,
  seq int8 not null,
  turn int8 not null,
  kind text not null,
  ref int8,
  tokens int8 not null,
  fence int8 not null,
  lease_fence int8 not null,
  at int8 not null,
  body bytes not null,
  unique (session, seq)
) /*strict*/;
create index entry_undo on entry (session, seq) where kind = 'undo';

create table summary (
  session text not null,
  n int8 not null,
  base_n int8 not null,
  covers_from int8 not null,
  covers_through int8 not null,
  head_seq int8 not null,
  model text not null,
  tokens int8 not null,
  operation text not null,
  at int8 not null,
  body bytes not null,
  primary key (session, n)
) /*strict*/;

create table operation (
  id text primary key,
  kind text not null,
  session text not null,
  owner text not null,
  fence int8 not null,
  started_at int8 not null,
  ended_at int8,
  outcome text,
  detail bytes
) /*strict*/;
create unique index operation_open on operation (session, kind) where ended_at is null;
create index operation_session on operation (session, started_at);

create table cursor (
  provider text not null,
  stream text not null,
  scheduled_seq int8 not null,
  settled_seq int8 not null,
  primary key (provider, stream)
) /*strict*/ /*clustered*/;

create table delivery (
  id text primary key,
  provider text not null,
  place text not null,
  stream text not null,
  from_seq int8 not null,
  through_seq int8 not null,
  from_turn int8 not null,
  through_turn int8 not null,
  op text not null,
  principal text not null,
  state text not null,
  attempt int8 not null default 0,
  due_at int8 not null,
  receipt text,
  reason text,
  at int8 not null,
  unique (provider, stream, from_seq, op)
) /*strict*/;

create table reply (
  id text primary key,
  mailbox text not null,
  session text,
  turn int8,
  message text not null,
  channel text not null,
  address text not null,
  state text not null,
  attempt int8 not null default 0,
  due_at int8,
  receipt text,
  at int8 not null,
  body bytes not null
) /*strict*/;
create index reply_message on reply (message);
create index reply_session on reply (session) where session is not null;
