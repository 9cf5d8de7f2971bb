-- A session's row is changed with every turn. `active_at` changes each time, so it is in no index: PostgreSQL changes the
-- row in place then. `idle_from` is never later than `active_at`; the search for expired sessions moves it.
alter table session add column idle_from int8 not null default 0;
update session set idle_from = active_at;
drop index session_idle;
create index session_idle on session (agent, idle_from) where state = 'open';
