-- Forgetting: who or what was forgotten, and each receipt. Ids and counts only.

-- `agent` is empty for all agents. `blanked` is JSON, what to how many. A request is over when `scrubbed_at` and
-- `swept_at` are set and every erasure of it is delivered.
create table forget (
  id text primary key,
  agent text not null,
  kind text not null,
  subject text not null,
  requested_at int8 not null,
  blanked text not null,
  scrubbed_at int8,
  scrub_receipt text,
  swept_at int8
) /*strict*/;
create index forget_requested on forget (requested_at, id);
create index forget_unscrubbed on forget (requested_at) where scrubbed_at is null;
create index forget_unswept on forget (requested_at) where swept_at is null;

-- The erasures of a request by their number on the lane, and the units that each of them names: frozen, so that what
-- is said later is spared.
create table forget_part (
  forget text not null,
  n int8 not null,
  primary key (forget, n)
) /*strict*/ /*clustered*/;
create table erased_unit (
  erasure text not null,
  unit text not null,
  primary key (erasure, unit)
) /*strict*/ /*clustered*/;

-- What was heard without being addressed, and what recall copied: found without reading every journal.
create index entry_overheard on entry (session, seq) where kind in ('observed', 'recall');
