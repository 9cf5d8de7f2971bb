-- Finishing. A row is the end of one epoch of a session, made in the transaction that ended it; `id` is also the origin
-- of what it writes to memory. `claim` is the caller's name for the newest claim, as in `mailbox`.

create table finalisation (
  id text primary key,
  session text not null,
  epoch int8 not null,
  cause text not null,
  from_seq int8 not null,
  through_seq int8 not null,
  said_at int8 not null,
  step text not null,
  attempts int8 not null default 0,
  fence int8 not null default 0,
  owner text,
  claim text,
  due_at int8 not null,
  started_at int8 not null,
  ended_at int8,
  model text,
  reason text,
  answer bytes,
  result bytes,
  unique (session, epoch)
) /*strict*/;
create index finalisation_due on finalisation (due_at) where owner is null and ended_at is null;
create index finalisation_owned on finalisation (owner) where owner is not null;
create index finalisation_started on finalisation (started_at, id);

-- Whose sessions may have expired is asked again and again, so it must cost nothing however many are closed.
create index session_idle on session (agent, active_at) where state = 'open';
