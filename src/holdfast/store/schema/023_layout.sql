-- Every turn changes rows of these tables soon after they were written. Room on their pages lets PostgreSQL change them
-- in place, without new entries in the indexes whose columns stay the same.
/*postgres
alter table mailbox set (fillfactor = 70);
alter table session set (fillfactor = 70);
alter table turn set (fillfactor = 80);
alter table inbound set (fillfactor = 80);
alter table reply set (fillfactor = 80);
alter table delivery set (fillfactor = 80);
alter table lane set (fillfactor = 70);
alter table cursor set (fillfactor = 70);
alter table node set (fillfactor = 50);
*/
