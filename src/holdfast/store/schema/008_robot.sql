-- Whether whoever holds the token is a program: then its messages are nobody's words, and the loop guard counts them.
alter table token add column robot int8 not null default 0;
