-- The address that the platform gave a chat instead of this one. Messages of the old chat may still arrive late; their
-- answers go to the new address.
alter table address add column moved_to text;
