-- Whether several people have spoken in a chat, whatever its type: each of them then reads what is answered to the others.
-- `speaker` is the first of them. A message of an agent is nobody's, and linked accounts are one person.
alter table mailbox add column speaker text;
alter table mailbox add column shared int8 not null default 0;
update mailbox set speaker = found.speaker, shared = found.several
  from (select turn.mailbox as place, min(coalesce(identity.person, turn.principal)) as speaker,
               case when count(distinct coalesce(identity.person, turn.principal)) > 1 then 1 else 0 end as several
          from turn left join identity on identity.principal = turn.principal
         where turn.mailbox is not null and turn.principal not like 'agent:%' group by turn.mailbox) as found
 where mailbox.id = found.place;
