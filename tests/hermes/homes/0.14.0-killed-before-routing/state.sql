insert into schema_version (version) values (11);
insert into sessions (id, source, user_id, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_055932_e7e28151', 'telegram', '4242', 'stub', 1794981572.298, 1794981611.233, 'compression', 13, 16366, 54, 'Answer to: User: Message number 0. These are words', 6);
insert into sessions (id, source, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_060011_d47945', 'telegram', 'stub', '20261118_055932_e7e28151', 1794981611.238, 4, 2209, 9, 'Answer to: User: Message number 0. These are words #2', 1);
insert into messages (id, session_id, role, content, timestamp) values (1, '20261118_055932_e7e28151', 'user', 'Message number 0. These are words.', 1794981579.157);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261118_055932_e7e28151', 'assistant', 'Answer to: Message number 0. These are words that f', 1794981579.162, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261118_055932_e7e28151', 'session_meta', 1794981584.19);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261118_055932_e7e28151', 'user', 'Message number 1. These are words.', 1794981584.978);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261118_055932_e7e28151', 'assistant', 'Answer to: Message number 1. These are words that f', 1794981584.994, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261118_055932_e7e28151', 'user', 'Message number 2. These are words.', 1794981590.294);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261118_055932_e7e28151', 'assistant', 'Answer to: Message number 2. These are words that f', 1794981590.314, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261118_055932_e7e28151', 'user', 'Message number 3. These are words.', 1794981595.658);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261118_055932_e7e28151', 'assistant', 'Answer to: Message number 3. These are words that f', 1794981595.659, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261118_055932_e7e28151', 'user', 'Message number 4. These are words.', 1794981600.936);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261118_055932_e7e28151', 'assistant', 'Answer to: Message number 4. These are words that f', 1794981600.937, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261118_055932_e7e28151', 'user', 'Message number 5. These are words.', 1794981606.114);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (13, '20261118_055932_e7e28151', 'assistant', 'Answer to: Message number 5. These are words that f', 1794981606.115, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (14, '20261118_060011_d47945', 'user', 'Message number 0. These are words.', 1794981611.386);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (15, '20261118_060011_d47945', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---

Answer to: Message number 4. These are words that f', 1794981611.387, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (16, '20261118_060011_d47945', 'user', 'Message number 5. These are words.', 1794981611.388);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (17, '20261118_060011_d47945', 'assistant', 'Answer to: Message number 5. These are words that f', 1794981611.389, 'stop');
