-- What exactly is approved: the digest over the call, with the salt that went into it, and whether the question in the
-- chat left out a part of the arguments. An approval that is older than this has neither: what its call says is read
-- from the journal. Salt and digest go when the words of the turn are forgotten.
alter table approval add column digest text;
alter table approval add column salt bytes;
alter table approval add column cut int8 not null default 0;
