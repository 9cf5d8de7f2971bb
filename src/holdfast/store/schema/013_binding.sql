-- For whom a token speaks: one sender, a set of chats (one per line), or anybody (relay). A token from before has none of
-- them and goes on as a relay. A message keeps the id of the token that it came with; older ones have none.
alter table token add column sender text;
alter table token add column chats text not null default '';
alter table token add column relay int8 not null default 0;
alter table inbound add column token text;
