-- What a forgetting looked at and left, as JSON, what to how many.
alter table forget add column kept text not null default '{}';

-- Whether a unit also holds what others said: a provider that can erase by who spoke leaves that.
alter table erased_unit add column shared int8 not null default 0;

-- What makes a request without an id of its own the same as another one, while it is not answered. It is made of the text,
-- so it is no part of an id: it goes when the message is answered, and with the words when somebody is forgotten.
alter table inbound add column request text;
create index inbound_request on inbound (request) where request is not null;

-- Whose message it was, so that the hash of its text goes when the person is forgotten. Of rows from before nobody can
-- say that: their hashes go, and such a message is known by its event id alone.
alter table tombstone add column principal text not null default '';
alter table tombstone add column agent text not null default '';
create index tombstone_principal on tombstone (principal, agent);
/*sqlite
update tombstone set body_hash = x'';
*/
/*postgres
update tombstone set body_hash = '';
*/
