-- Questions of every turn whose cost grew with the number of sessions: each now has an index that leads to its rows.
create index cursor_stream on cursor (stream);
drop index lane_owned;
create index lane_owned on lane (owner, claim, agent, provider) where owner is not null;
