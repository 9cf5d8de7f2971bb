insert into schema_version (version) values (13);
insert into sessions (id, source, user_id, model, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261119_220924_1882c3a3', 'telegram', '4242', 'stub', 1795126164.932, 6, 28878, 90, 'Answer to: User: Message number 0. These are words ... tory of the conversat...', 10);
insert into messages (id, session_id, role, content, timestamp) values (20, '20261119_220924_1882c3a3', 'user', 'Message number 0. These are words.', 1795126175.327);
insert into messages (id, session_id, role, content, timestamp) values (21, '20261119_220924_1882c3a3', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---

Answer to: Message number 6. These are words that f ... tory of the conversation.', 1795126175.327);
insert into messages (id, session_id, role, content, timestamp) values (22, '20261119_220924_1882c3a3', 'user', 'Message number 7. These are words.', 1795126175.327);
insert into messages (id, session_id, role, content, timestamp) values (23, '20261119_220924_1882c3a3', 'assistant', 'Answer to: Message number 7. These are words that f ... tory of the conversation.', 1795126175.327);
insert into messages (id, session_id, role, content, timestamp) values (24, '20261119_220924_1882c3a3', 'user', 'And what now?', 1795126175.628);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (25, '20261119_220924_1882c3a3', 'assistant', 'Answer to: And what now?', 1795126175.644, 'stop');
