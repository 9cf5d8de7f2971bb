-- The gateway: replies on their way to a platform, who may come in, what waits for an approval, what came with a
-- message, how far each conversation was read, what models cost.

-- Where a message came from: a mailbox may be reached from several addresses. Null in rows from before.
alter table inbound add column address text;
alter table inbound add column sender_name text;

-- `n` is the order in which replies were committed. `part` counts the pieces of a long reply that were sent; `doubts`
-- how often its fate was unknown; `claim` is the caller's name for the newest claim, as in `mailbox`.
create table posted (
  n int8 primary key /*identity*/,
  id text not null,
  mailbox text not null,
  session text,
  turn int8,
  message text not null,
  agent text not null,
  channel text not null,
  address text not null,
  hop int8 not null default 0,
  state text not null,
  attempt int8 not null default 0,
  part int8 not null default 0,
  doubts int8 not null default 0,
  due_at int8,
  owner text,
  claim text,
  sent_at int8,
  settled_at int8,
  receipt text,
  reason text,
  at int8 not null,
  body bytes not null
) /*strict*/;
insert into posted (id, mailbox, session, turn, message, agent, channel, address, state, attempt, due_at, receipt, at, body)
select reply.id, reply.mailbox, reply.session, reply.turn, reply.message, mailbox.agent, reply.channel, reply.address,
       reply.state, reply.attempt, reply.due_at, reply.receipt, reply.at, reply.body
  from reply join mailbox on mailbox.id = reply.mailbox order by reply.at, reply.id;
drop table reply;
alter table posted rename to reply;
create unique index reply_id on reply (id);
create index reply_message on reply (message);
create index reply_session on reply (session) where session is not null;
create index reply_open on reply (address, n) where state in ('pending', 'attempting');
create index reply_due on reply (agent, channel, due_at) where state = 'pending';
create index reply_owned on reply (owner) where owner is not null;
create index reply_state on reply (state, n) where state <> 'delivered';

-- How far a conversation was read, where the platform does not send again what was missed (D2).
create table watermark (
  account text not null,
  conversation text not null,
  position int8 not null,
  event_id text not null,
  at int8 not null,
  primary key (account, conversation)
) /*strict*/ /*clustered*/;

-- What came with a message, by the hash of its bytes; the same bytes are kept once.
create table attachment (
  hash text primary key,
  size int8 not null,
  at int8 not null,
  body bytes not null
) /*strict*/;
create table enclosure (
  message text not null,
  n int8 not null,
  hash text not null,
  name text not null,
  media_type text not null,
  size int8 not null,
  primary key (message, n)
) /*strict*/ /*clustered*/;
create index enclosure_hash on enclosure (hash);

-- Bearer tokens, by their hash. `scopes` and `agents` are words with spaces between; no agents means all.
create table token (
  id text primary key,
  hash bytes not null unique,
  label text not null,
  scopes text not null,
  agents text not null,
  made_at int8 not null,
  revoked_at int8
) /*strict*/;

-- Senders who asked to come in, and those who may.
create table pairing (
  code text primary key,
  agent text not null,
  channel text not null,
  principal text not null,
  name text not null,
  address text not null,
  asked_at int8 not null,
  told_at int8 not null,
  decided_at int8,
  decision text,
  unique (agent, principal)
) /*strict*/;
create table admission (
  agent text not null,
  principal text not null,
  at int8 not null,
  primary key (agent, principal)
) /*strict*/ /*clustered*/;

-- One person, several principals. A principal without a row is a person of its own; a person to whom anybody is
-- linked has a row that names itself, so that both ends of a link can be locked.
create table identity (
  principal text primary key,
  person text not null,
  at int8 not null
) /*strict*/ /*clustered*/;
create index identity_person on identity (person);

-- A tool call that waits for a human. Undecided ones make their turn wait without a claim (D9). `approvers` are
-- principals, one on a line; none means whoever asked. `yields`: mail that comes meanwhile ends the turn. The reason
-- of a denial is kept until its turn ends: by then it is in the journal.
create table approval (
  id text primary key,
  session text not null,
  turn int8 not null,
  call text not null,
  tool text not null,
  mailbox text not null,
  principal text not null,
  approvers text not null,
  yields int8 not null,
  asked_at int8 not null,
  due_at int8 not null,
  decided_at int8,
  decision text,
  decided_by text,
  reason text
) /*strict*/;
create index approval_turn on approval (session, turn);
create index approval_asked on approval (asked_at, id);
create index approval_open on approval (mailbox) where decided_at is null;
-- The newest approval that a turn asked for; and until when its mailbox sleeps, unless it is decided, stopped or yields.
alter table turn add column approval text;
alter table mailbox add column waits_until int8;
alter table mailbox add column yields int8 not null default 0;

-- One row for each answer of a model that was paid for; a millionth of a dollar is the unit.
create table spend (
  id text primary key,
  agent text not null,
  at int8 not null,
  task text not null,
  model text not null,
  tokens_in int8 not null,
  tokens_out int8 not null,
  cost_micros int8 not null
) /*strict*/;
create index spend_agent on spend (agent, at);
