insert into schema_version (version) values (11);
insert into sessions (id, source, user_id, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_055817_0ab701f7', 'telegram', '4242', 'stub', 1794981497.666, 1794981530.828, 'compression', 13, 16366, 54, 'Answer to: User: Message number 0. These are words', 6);
insert into sessions (id, source, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_055850_cb7895', 'telegram', 'stub', '20261118_055817_0ab701f7', 1794981530.838, 2, 2209, 9, 'Answer to: User: Message number 0. These are words #2', 1);
insert into messages (id, session_id, role, content, timestamp) values (1, '20261118_055817_0ab701f7', 'user', 'Message number 0. These are words.', 1794981499.594);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261118_055817_0ab701f7', 'assistant', 'Answer to: Message number 0. These are words that f', 1794981499.602, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261118_055817_0ab701f7', 'session_meta', 1794981504.61);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261118_055817_0ab701f7', 'user', 'Message number 1. These are words.', 1794981504.902);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261118_055817_0ab701f7', 'assistant', 'Answer to: Message number 1. These are words that f', 1794981504.91, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261118_055817_0ab701f7', 'user', 'Message number 2. These are words.', 1794981510.018);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261118_055817_0ab701f7', 'assistant', 'Answer to: Message number 2. These are words that f', 1794981510.022, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261118_055817_0ab701f7', 'user', 'Message number 3. These are words.', 1794981515.166);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261118_055817_0ab701f7', 'assistant', 'Answer to: Message number 3. These are words that f', 1794981515.174, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261118_055817_0ab701f7', 'user', 'Message number 4. These are words.', 1794981520.36);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261118_055817_0ab701f7', 'assistant', 'Answer to: Message number 4. These are words that f', 1794981520.366, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261118_055817_0ab701f7', 'user', 'Message number 5. These are words.', 1794981525.654);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (13, '20261118_055817_0ab701f7', 'assistant', 'Answer to: Message number 5. These are words that f', 1794981525.658, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (14, '20261118_055850_cb7895', 'user', 'Message number 0. These are words.', 1794981531.122);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (15, '20261118_055850_cb7895', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---

Answer to: Message number 4. These are words that f', 1794981531.126, 'stop');
