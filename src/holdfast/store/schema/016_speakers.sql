-- Whether more than one person has spoken in a session, or in one that it was branched from: its texts are then shown to
-- the model with who said each of them. It is never taken back, so a compression or an undo cannot hide a speaker.
alter table session add column several int8 not null default 0;
update session set several = 1
 where exists (select 1 from turn where turn.session = session.id and turn.principal <> session.principal)
    or exists (select 1 from entry where entry.session = session.id and entry.kind = 'observed');
with recursive mixed(id) as (
  select id from session where several = 1
  union select child.id from session as child join session as parent on parent.id = child.parent_id
         where child.principal <> parent.principal
  union select child.id from session as child join mixed on mixed.id = child.parent_id
)
update session set several = 1 where id in (select id from mixed);
