-- The agents through which a message came, the first one first, with blanks between them; null for a person's message.
-- A turn has only the tools that all of them have. Of what is under way the earlier senders are unknown: `?` has no tools.
alter table inbound add column chain text;
alter table turn add column chain text;
alter table reply add column chain text;
update inbound set chain = case when hop > 1 then '? ' else '' end || substr(account, 7)
 where state in ('waiting', 'in_turn') and human = 0 and hop > 0 and account like 'agent:%';
update turn set chain = '?' where closed_at is null and principal like 'agent:%';
update reply set chain = '?'
 where channel = 'agent' and state <> 'delivered'
   and (hop > 1 or exists (select 1 from address where address.address = reply.address
                                                  and address.mailbox_id = reply.mailbox));
