-- What shows that a provider works while one delivery fails: when each lane last delivered something, and when the
-- delivery itself last failed in a way that may be about its words.
alter table lane add column delivered_at int8;
-- When an attempt on the lane last ended without proof: its request may still arrive.
alter table lane add column doubted_at int8;
alter table delivery add column suspected_at int8;
create index lane_delivered on lane (agent, provider, delivered_at) where delivered_at is not null;
