-- What happened and when, for people who ask later. Nothing decides by it, and it has no words of people.

-- What a turn did: a query of memory, a request to a model, a tool call, a wait for a compression, a take-over by another
-- claim. `fence` is that of the claim; `detail` is JSON.
create table activity (
  n int8 primary key /*identity*/,
  session text not null,
  turn int8 not null,
  fence int8 not null,
  kind text not null,
  name text not null,
  started_at int8 not null,
  ended_at int8 not null,
  outcome text not null,
  call text,
  tokens_in int8,
  tokens_out int8,
  detail bytes not null
) /*strict*/;
create index activity_turn on activity (session, turn);

-- The node of the newest claim that worked on the turn.
alter table turn add column node text;

-- Attempts at deliveries and replies that did not settle them; the settling attempt is in the row of the delivery or
-- reply. `subject` is its `n`; `status`, `request_id`, `code` and `extract` are of the vendor's answer.
create table attempt (
  n int8 primary key /*identity*/,
  kind text not null,
  subject int8 not null,
  attempt int8 not null,
  part int8 not null default 0,
  node text not null,
  started_at int8,
  ended_at int8 not null,
  outcome text not null,
  reason text,
  status int8,
  request_id text,
  code text,
  extract text
) /*strict*/;
create index attempt_subject on attempt (kind, subject, n);

-- Every node that was registered, also after it ended. `seen_at` is its last sign of life; `ending` is stopped or lost.
create table node_run (
  id text primary key,
  host text not null,
  started_at int8 not null,
  seen_at int8 not null,
  ended_at int8,
  ending text
) /*strict*/;
create index node_run_started on node_run (started_at);

-- What the loops of a node counted in a minute or an hour, and how much waited at its end; `body` is JSON.
create table sample (
  span text not null,
  at int8 not null,
  node text not null,
  body bytes not null,
  primary key (span, at, node)
) /*strict*/ /*clustered*/;

-- A message is found by the sender's own id also without its chat.
create index inbound_event on inbound (event_id);

-- Failed extractions wait for a person, and are few.
create index finalisation_failed on finalisation (ended_at) where step = 'failed';

-- How often a message was sent again under its id, without effect.
alter table inbound add column repeats int8 not null default 0;
alter table inbound add column repeated_at int8;
