-- Logins of browsers, by the hash of their cookie. `token` is the id of the token that logged in, or `operator`; `proof`
-- ties a login of the operator to the operator's token of that time. Times before `ended_at` are the gateway's.
create table login (
  id text primary key,
  hash bytes not null unique,
  token text not null,
  proof bytes not null,
  made_at int8 not null,
  seen_at int8 not null,
  ends_at int8 not null,
  ended_at int8,
  reason text
) /*strict*/;
create index login_token on login (token, id);
create index login_ends on login (ends_at);
-- From when on a token is refused; null in rows from before, and for tokens that never expire.
alter table token add column expires_at int8;
