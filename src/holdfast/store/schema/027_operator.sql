-- What operators decide: agents that begin no turn, and deliveries and replies that a person settled.
create table agent_pause (
  agent text primary key,
  paused_at int8 not null,
  actor_kind text not null,
  actor text not null,
  label text not null,
  origin text not null
) /*strict*/;

-- 0: not paused. 1: paused; no worker claims the mailbox. 2: paused at the end of its open turn.
alter table mailbox add column paused int8 not null default 0;
drop index mailbox_ready;
create index mailbox_ready on mailbox (ready_at) where owner is null and ready_at is not null and paused <> 1;
create index mailbox_agent on mailbox (agent);

-- Who settled it, when a person did: a delivered one was said to have arrived, any other one was given up.
alter table delivery add column decided_by text;
alter table reply add column decided_by text;
