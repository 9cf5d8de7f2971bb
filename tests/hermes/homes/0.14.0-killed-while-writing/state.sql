insert into schema_version (version) values (11);
insert into sessions (id, source, user_id, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_215603_6ba4ca79', 'telegram', '4242', 'stub', 1795125363.04, 1795125399.911, 'compression', 11, 12400, 45, 'Answer to: User: Message number 0. These are words ... tory of the conversat...', 5);
insert into sessions (id, source, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_215639_8dac25', 'telegram', 'stub', '20261119_215603_6ba4ca79', 1795125399.92, 3, 2659, 9, 'Answer to: User: Message number 0. These are words ... tory of the conversat... #2', 1);
insert into messages (id, session_id, role, content, timestamp) values (1, '20261119_215603_6ba4ca79', 'user', 'Message number 0. These are words.', 1795125372.522);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261119_215603_6ba4ca79', 'assistant', 'Answer to: Message number 0. These are words that f ... tory of the conversation.', 1795125372.528, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261119_215603_6ba4ca79', 'session_meta', 1795125377.593);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261119_215603_6ba4ca79', 'user', 'Message number 1. These are words.', 1795125378.432);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261119_215603_6ba4ca79', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1795125378.436, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261119_215603_6ba4ca79', 'user', 'Message number 2. These are words.', 1795125383.704);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261119_215603_6ba4ca79', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1795125383.708, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261119_215603_6ba4ca79', 'user', 'Message number 3. These are words.', 1795125389.121);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261119_215603_6ba4ca79', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1795125389.127, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261119_215603_6ba4ca79', 'user', 'Message number 4. These are words.', 1795125394.556);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261119_215603_6ba4ca79', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1795125394.568, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261119_215639_8dac25', 'user', 'Message number 0. These are words.', 1795125400.344);
insert into messages (id, session_id, role, content, timestamp) values (13, '20261119_215639_8dac25', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation', 1795125400.344);
insert into messages (id, session_id, role, content, timestamp) values (14, '20261119_215639_8dac25', 'user', 'Message number 4. These are words.', 1795125400.36);
