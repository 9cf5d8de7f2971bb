insert into schema_version (version) values (22);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_060819_66db68d8', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', 1794982099.606, 4, 8748, 27, 'Answer to: User: Message number 0. These are words ... l, not an interrogati...', 3);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (1, '20261118_060819_66db68d8', 'user', 'Message number 0. These are words.', 1794982097.101, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (2, '20261118_060819_66db68d8', 'assistant', 'Answer to: Message number 0. These are words that f ... l, not an interrogation.]', 1794982165.637, 'stop', 0, 1);
insert into messages (id, session_id, role, timestamp, active, compacted) values (3, '20261118_060819_66db68d8', 'session_meta', 1794982166.147, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (4, '20261118_060819_66db68d8', 'user', 'Message number 1. These are words.', 1794982167.002, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (5, '20261118_060819_66db68d8', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1794982170.432, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (6, '20261118_060819_66db68d8', 'user', 'Message number 2. These are words.', 1794982171.85, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (7, '20261118_060819_66db68d8', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982174.707, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (8, '20261118_060819_66db68d8', 'user', 'Message number 0. These are words.', 1794982097.101, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (9, '20261118_060819_66db68d8', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 1. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982185.637, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (10, '20261118_060819_66db68d8', 'user', 'Message number 2. These are words.', 1794982171.85, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (11, '20261118_060819_66db68d8', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982185.637, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (12, '20261118_060819_66db68d8', 'user', 'Message number 3. These are words.', 1794982185.637, 0, 1);
insert into messages (id, session_id, role, content, timestamp) values (13, '20261118_060819_66db68d8', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982186.095);
insert into messages (id, session_id, role, content, timestamp) values (14, '20261118_060819_66db68d8', 'user', 'Message number 2. These are words.', 1794982171.85);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (15, '20261118_060819_66db68d8', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982186.095, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (16, '20261118_060819_66db68d8', 'user', 'Message number 3. These are words.', 1794982186.095);
insert into gateway_routing (scope, session_key, entry_json, updated_at) values ('/home/ada/.hermes/sessions', 'agent:main:telegram:dm:4242', '{"session_key": "agent:main:telegram:dm:4242", "session_id": "20261118_060819_66db68d8", "created_at": "2026-11-18T06:08:19.481838", "updated_at": "2026-11-18T06:09:35.993725", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 3445, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}}', 1794982175.994);
insert into compression_locks (session_id, holder, acquired_at, expires_at) values ('20261118_060819_66db68d8', 'pid=4999999:tid=1:agent=7f336ce3cad0:nonce=5b5e4a01', 1794982185.794, 1794982485.794);
