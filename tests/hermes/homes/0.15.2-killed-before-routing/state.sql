insert into schema_version (version) values (13);
insert into sessions (id, source, user_id, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_221024_8453d1eb', 'telegram', '4242', 'stub', 1795126224.012, 1795126238.263, 'compression', 11, 12789, 45, 'Answer to: User: Message number 0. These are words ... tory of the conversat...', 5);
insert into sessions (id, source, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_221038_f8d7b5', 'telegram', 'stub', '20261119_221024_8453d1eb', 1795126238.266, 4, 2737, 9, 'Answer to: User: Message number 0. These are words ... tory of the conversat... #2', 1);
insert into messages (id, session_id, role, content, timestamp) values (1, '20261119_221024_8453d1eb', 'user', 'Message number 0. These are words.', 1795126235.407);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261119_221024_8453d1eb', 'assistant', 'Answer to: Message number 0. These are words that f ... tory of the conversation.', 1795126235.412, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261119_221024_8453d1eb', 'session_meta', 1795126235.477);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261119_221024_8453d1eb', 'user', 'Message number 1. These are words.', 1795126236.265);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261119_221024_8453d1eb', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1795126236.284, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261119_221024_8453d1eb', 'user', 'Message number 2. These are words.', 1795126236.685);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261119_221024_8453d1eb', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1795126236.693, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261119_221024_8453d1eb', 'user', 'Message number 3. These are words.', 1795126237.137);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261119_221024_8453d1eb', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1795126237.152, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261119_221024_8453d1eb', 'user', 'Message number 4. These are words.', 1795126237.334);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261119_221024_8453d1eb', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1795126237.352, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261119_221038_f8d7b5', 'user', 'Message number 0. These are words.', 1795126238.461);
insert into messages (id, session_id, role, content, timestamp) values (13, '20261119_221038_f8d7b5', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation', 1795126238.508);
insert into messages (id, session_id, role, content, timestamp) values (14, '20261119_221038_f8d7b5', 'user', 'Message number 4. These are words.', 1795126238.509);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (15, '20261119_221038_f8d7b5', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1795126238.516, 'stop');
