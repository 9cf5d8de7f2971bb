insert into schema_version (version) values (11);
insert into sessions (id, source, user_id, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_215603_00ec3357', 'telegram', '4242', 'stub', 1795125363.041, 1795125399.914, 'compression', 11, 12400, 45, 'Answer to: User: Message number 0. These are words ... tory of the conversat...', 5);
insert into sessions (id, source, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_215639_ca9d22', 'telegram', 'stub', '20261119_215603_00ec3357', 1795125399.92, 4, 2659, 9, 'Answer to: User: Message number 0. These are words ... tory of the conversat... #2', 1);
insert into messages (id, session_id, role, content, timestamp) values (1, '20261119_215603_00ec3357', 'user', 'Message number 0. These are words.', 1795125372.827);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261119_215603_00ec3357', 'assistant', 'Answer to: Message number 0. These are words that f ... tory of the conversation.', 1795125372.856, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261119_215603_00ec3357', 'session_meta', 1795125377.919);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261119_215603_00ec3357', 'user', 'Message number 1. These are words.', 1795125378.58);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261119_215603_00ec3357', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1795125378.583, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261119_215603_00ec3357', 'user', 'Message number 2. These are words.', 1795125383.728);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261119_215603_00ec3357', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1795125383.729, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261119_215603_00ec3357', 'user', 'Message number 3. These are words.', 1795125389.14);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261119_215603_00ec3357', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1795125389.142, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261119_215603_00ec3357', 'user', 'Message number 4. These are words.', 1795125394.575);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261119_215603_00ec3357', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1795125394.585, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261119_215639_ca9d22', 'user', 'Message number 0. These are words.', 1795125400.276);
insert into messages (id, session_id, role, content, timestamp) values (13, '20261119_215639_ca9d22', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation', 1795125400.301);
insert into messages (id, session_id, role, content, timestamp) values (14, '20261119_215639_ca9d22', 'user', 'Message number 4. These are words.', 1795125400.314);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (15, '20261119_215639_ca9d22', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1795125400.326, 'stop');
