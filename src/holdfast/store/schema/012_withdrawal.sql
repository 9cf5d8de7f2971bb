-- How often something was taken back that instructions may hold in RAM: a forgetting counts for its agent, a link that
-- was made or taken back counts under the empty name, for all of them. A process compares the number, not the words.
create table withdrawal (
  agent text primary key,
  n int8 not null
) /*strict*/ /*clustered*/;
