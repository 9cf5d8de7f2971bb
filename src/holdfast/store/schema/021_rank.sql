-- What was known of the sender when a message came: an admin of its group as the platform told, an operator by the token
-- that it came with, or that the platform could not be asked. Null is none of these. Only commands that need it have one.
alter table inbound add column rank text;
