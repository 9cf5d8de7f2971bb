insert into schema_version (version) values (11);
insert into sessions (id, source, user_id, model, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_055411_9487b0b9', 'telegram', '4242', 'stub', 1794981251.822, 6, 27848, 90, 'Answer to: User: Message number 0. These are words', 10);
insert into messages (id, session_id, role, content, timestamp) values (20, '20261118_055411_9487b0b9', 'user', 'Message number 0. These are words.', 1794981336.116);
insert into messages (id, session_id, role, content, timestamp) values (21, '20261118_055411_9487b0b9', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---

Answer to: Message number 6. These are words that f', 1794981336.116);
insert into messages (id, session_id, role, content, timestamp) values (22, '20261118_055411_9487b0b9', 'user', 'Message number 7. These are words.', 1794981336.116);
insert into messages (id, session_id, role, content, timestamp) values (23, '20261118_055411_9487b0b9', 'assistant', 'Answer to: Message number 7. These are words that f', 1794981336.116);
insert into messages (id, session_id, role, content, timestamp) values (24, '20261118_055411_9487b0b9', 'user', 'And what now?', 1794981336.753);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (25, '20261118_055411_9487b0b9', 'assistant', 'Answer to: And what now?', 1794981336.762, 'stop');
