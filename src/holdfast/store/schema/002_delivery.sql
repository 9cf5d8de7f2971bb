-- Lanes and what travels on them. No release before this one could write a delivery, so the first table goes unread.

drop table delivery;

-- What a turn's names were made of, as it was when the turn was committed; `places` is JSON, provider to place.
alter table turn add column title text;
alter table turn add column places text;

-- When the pending turns become due however few they are.
alter table cursor add column due_at int8;
create index cursor_due on cursor (due_at) where due_at is not null;

-- The provider-side thing whose order people see. `due_at` is when its head may be tried; null without work.
create table lane (
  agent text not null,
  provider text not null,
  place text not null,
  fence int8 not null default 0,
  owner text,
  claim text,
  due_at int8,
  primary key (agent, provider, place)
) /*strict*/;
create index lane_ready on lane (agent, provider, due_at) where owner is null and due_at is not null;
create index lane_owned on lane (owner) where owner is not null;

-- `n` is the order on the lane. `op` is retain, retract:<first turn>, remember or erase. `late` says that it was
-- parked once and has lost its place in the order.
create table delivery (
  n int8 primary key /*identity*/,
  id text not null,
  agent text not null,
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
  late int8 not null default 0,
  suspect int8 not null default 0,
  due_at int8 not null,
  sent_at int8,
  failing_at int8,
  uncertain_at int8,
  settled_at int8,
  payload_hash text,
  renderer text,
  fence int8,
  lease_fence int8,
  receipt text,
  reason text,
  at int8 not null,
  unique (stream, provider, from_seq, op)
) /*strict*/;
create index delivery_lane on delivery (agent, provider, place, n)
  where state in ('scheduled', 'sending', 'uncertain');
create index delivery_parked on delivery (n) where state = 'parked';
