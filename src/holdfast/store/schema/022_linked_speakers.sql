-- Accounts that spoke in a chat besides its first speaker, while all of them were one person. A link may be taken back:
-- then several people have spoken there. Nothing is added once a chat is shared.
create table linked_speaker (
  mailbox text not null,
  principal text not null,
  primary key (mailbox, principal)
) /*strict*/ /*clustered*/;
insert into linked_speaker (mailbox, principal)
select distinct turn.mailbox, turn.principal from turn join mailbox on mailbox.id = turn.mailbox
 where mailbox.shared = 0 and turn.principal <> mailbox.speaker and turn.principal not like 'agent:%';
