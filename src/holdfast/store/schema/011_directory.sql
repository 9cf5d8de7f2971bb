-- Where a message was written, for providers that name their sessions after a directory or a repository (R17). Empty for
-- messages of platforms and HTTP, and in rows from before.
alter table inbound add column directory text;
alter table inbound add column repo text;
alter table turn add column directory text;
alter table turn add column repo text;
