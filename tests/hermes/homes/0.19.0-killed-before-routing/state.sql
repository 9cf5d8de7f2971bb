insert into schema_version (version) values (22);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_060543_555a4e82', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', 1794981943.406, 1794982002.79, 'compression', 14, 8706, 27, 'Answer to: User: Message number 0. These are words ... l, not an interrogati...', 3);
insert into sessions (id, source, model, parent_session_id, started_at, message_count, title) values ('20261118_060642_2f8597', 'telegram', 'stub', '20261118_060543_555a4e82', 1794982002.798, 5, 'Answer to: User: Message number 0. These are words ... l, not an interrogati... #2');
insert into messages (id, session_id, role, content, timestamp) values (1, '20261118_060543_555a4e82', 'user', 'Message number 0. These are words.', 1794981941.142);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261118_060543_555a4e82', 'assistant', 'Answer to: Message number 0. These are words that f ... l, not an interrogation.]', 1794981995.004, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261118_060543_555a4e82', 'session_meta', 1794981995.339);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261118_060543_555a4e82', 'user', 'Message number 1. These are words.', 1794981996.078);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261118_060543_555a4e82', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1794981997.952, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261118_060543_555a4e82', 'user', 'Message number 2. These are words.', 1794981998.286);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261118_060543_555a4e82', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982000.014, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261118_060543_555a4e82', 'user', 'Message number 0. These are words.', 1794981941.142);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261118_060543_555a4e82', 'assistant', 'Answer to: Message number 0. These are words that f ... l, not an interrogation.]', 1794982002.71, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261118_060543_555a4e82', 'user', 'Message number 1. These are words.', 1794981996.078);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261118_060543_555a4e82', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1794982002.742, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261118_060543_555a4e82', 'user', 'Message number 2. These are words.', 1794981998.286);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (13, '20261118_060543_555a4e82', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982002.759, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (14, '20261118_060543_555a4e82', 'user', 'Message number 3. These are words.', 1794982000.222);
insert into messages (id, session_id, role, content, timestamp) values (15, '20261118_060642_2f8597', 'user', 'Message number 0. These are words.', 1794981941.142);
insert into messages (id, session_id, role, content, timestamp) values (16, '20261118_060642_2f8597', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 1. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982002.874);
insert into messages (id, session_id, role, content, timestamp) values (17, '20261118_060642_2f8597', 'user', 'Message number 2. These are words.', 1794981998.286);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (18, '20261118_060642_2f8597', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982002.874, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (19, '20261118_060642_2f8597', 'user', 'Message number 3. These are words.', 1794982002.874);
insert into gateway_routing (scope, session_key, entry_json, updated_at) values ('/home/ada/.hermes/sessions', 'agent:main:telegram:dm:4242', '{"session_key": "agent:main:telegram:dm:4242", "session_id": "20261118_060543_555a4e82", "created_at": "2026-11-18T06:05:43.326287", "updated_at": "2026-11-18T06:06:40.225023", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 3431, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}}', 1794982000.225);
insert into compression_locks (session_id, holder, acquired_at, expires_at) values ('20261118_060543_555a4e82', 'pid=4999999:tid=1:agent=7f21cc16ca10:nonce=bc1094fa', 1794982002.082, 1794982302.082);
