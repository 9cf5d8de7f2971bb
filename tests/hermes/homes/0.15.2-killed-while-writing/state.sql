insert into schema_version (version) values (13);
insert into sessions (id, source, user_id, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_221012_f42e690e', 'telegram', '4242', 'stub', 1795126212.112, 1795126219.052, 'compression', 11, 12789, 45, 'Answer to: User: Message number 0. These are words ... tory of the conversat...', 5);
insert into sessions (id, source, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_221019_859d92', 'telegram', 'stub', '20261119_221012_f42e690e', 1795126219.064, 2, 2737, 9, 'Answer to: User: Message number 0. These are words ... tory of the conversat... #2', 1);
insert into messages (id, session_id, role, content, timestamp) values (1, '20261119_221012_f42e690e', 'user', 'Message number 0. These are words.', 1795126216.807);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261119_221012_f42e690e', 'assistant', 'Answer to: Message number 0. These are words that f ... tory of the conversation.', 1795126216.808, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261119_221012_f42e690e', 'session_meta', 1795126216.825);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261119_221012_f42e690e', 'user', 'Message number 1. These are words.', 1795126217.313);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261119_221012_f42e690e', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1795126217.314, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261119_221012_f42e690e', 'user', 'Message number 2. These are words.', 1795126217.62);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261119_221012_f42e690e', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1795126217.632, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261119_221012_f42e690e', 'user', 'Message number 3. These are words.', 1795126217.929);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261119_221012_f42e690e', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1795126217.952, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261119_221012_f42e690e', 'user', 'Message number 4. These are words.', 1795126218.269);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261119_221012_f42e690e', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1795126218.284, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261119_221019_859d92', 'user', 'Message number 0. These are words.', 1795126219.229);
insert into messages (id, session_id, role, content, timestamp) values (13, '20261119_221019_859d92', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation', 1795126219.232);
