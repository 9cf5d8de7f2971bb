insert into schema_version (version) values (22);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_061216_788226aa', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', 1794982336.603, 7, 28391, 72, 'Answer to: User: Message number 0. These are words ... l, not an interrogati...', 8);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (1, '20261118_061216_788226aa', 'user', 'Message number 0. These are words.', 1794982332.085, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (2, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 0. These are words that f ... l, not an interrogation.]', 1794982434.894, 'stop', 0, 1);
insert into messages (id, session_id, role, timestamp, active, compacted) values (3, '20261118_061216_788226aa', 'session_meta', 1794982436.079, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (4, '20261118_061216_788226aa', 'user', 'Message number 1. These are words.', 1794982438.322, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (5, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1794982446.467, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (6, '20261118_061216_788226aa', 'user', 'Message number 2. These are words.', 1794982449.814, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (7, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982454.575, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (8, '20261118_061216_788226aa', 'user', 'Message number 0. These are words.', 1794982332.085, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (9, '20261118_061216_788226aa', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 1. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982478.707, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (10, '20261118_061216_788226aa', 'user', 'Message number 2. These are words.', 1794982449.814, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (11, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982478.707, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (12, '20261118_061216_788226aa', 'user', 'Message number 3. These are words.', 1794982478.707, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (13, '20261118_061216_788226aa', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982480.675, 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (14, '20261118_061216_788226aa', 'user', 'Message number 2. These are words.', 1794982449.814, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (15, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982480.675, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (16, '20261118_061216_788226aa', 'user', 'Message number 3. These are words.', 1794982480.675, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (17, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1794982486.259, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (18, '20261118_061216_788226aa', 'user', 'Message number 4. These are words.', 1794982489.322, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (19, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982498.719, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (20, '20261118_061216_788226aa', 'user', 'Message number 5. These are words.', 1794982502.522, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (21, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 5. These are words that f ... tory of the conversation.', 1794982511.267, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp, active, compacted) values (22, '20261118_061216_788226aa', 'user', 'Message number 6. These are words.', 1794982515.43, 0, 1);
insert into messages (id, session_id, role, content, timestamp, finish_reason, active, compacted) values (23, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 6. These are words that f ... tory of the conversation.', 1794982527.532, 'stop', 0, 1);
insert into messages (id, session_id, role, content, timestamp) values (24, '20261118_061216_788226aa', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982548.345);
insert into messages (id, session_id, role, content, timestamp) values (25, '20261118_061216_788226aa', 'user', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 4. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982548.345);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (26, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982548.345, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (27, '20261118_061216_788226aa', 'user', 'Message number 5. These are words.', 1794982502.522);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (28, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 5. These are words that f ... tory of the conversation.', 1794982548.345, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (29, '20261118_061216_788226aa', 'user', 'Message number 6 of the other gateway. These are words.', 1794982548.345);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (30, '20261118_061216_788226aa', 'assistant', 'Answer to: Message number 6 of the other gateway. T ... tory of the conversation.', 1794982554.595, 'stop');
insert into gateway_routing (scope, session_key, entry_json, updated_at) values ('/home/ada/.hermes/sessions', 'agent:main:telegram:dm:4242', '{"session_key": "agent:main:telegram:dm:4242", "session_id": "20261118_061216_788226aa", "created_at": "2026-11-18T06:12:16.430936", "updated_at": "2026-11-18T06:15:56.594094", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 4705, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}}', 1794982556.594);
