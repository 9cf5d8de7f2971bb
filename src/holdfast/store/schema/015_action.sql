-- The audit trail: every privileged act, in the order of commits. `digest` is made over the row and the digest of the row
-- before; the newest one stands in `action_head`, whose row is locked while an action is added.
create table action (
  n int8 primary key,
  at int8 not null,
  verb text not null,
  actor_kind text not null,
  actor text not null,
  label text not null,
  origin text not null,
  subject text not null,
  outcome text not null,
  code text not null,
  count int8 not null,
  detail text not null,
  digest bytes not null
) /*strict*/;
create table action_head (
  id int8 primary key,
  n int8 not null,
  digest bytes not null
) /*strict*/;
-- How many attempts of an actor were refused in an hour. The trail has a row for the first ones only.
create table refusal (
  actor text not null,
  hour int8 not null,
  n int8 not null,
  primary key (actor, hour)
) /*strict*/ /*clustered*/;

-- An action is never changed or removed. Each engine has its own words for that.
/*sqlite
create trigger action_is_not_changed before update on action begin
  select raise(abort, 'the audit trail is append-only');
end;
create trigger action_is_not_removed before delete on action begin
  select raise(abort, 'the audit trail is append-only');
end;
*/
/*postgres
create function holdfast_append_only() returns trigger language plpgsql as $$
begin
  raise exception 'the audit trail is append-only';
end $$;
create trigger action_is_append_only before update or delete or truncate on action
  for each statement execute function holdfast_append_only();
*/
