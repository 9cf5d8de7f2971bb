insert into schema_version (version) values (22);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_060910_1c6473d5', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', 1794982151.085, 1794982251.238, 'compression', 14, 8745, 27, 'Answer to: User: Message number 0. These are words ... l, not an interrogati...', 3);
insert into sessions (id, source, model, parent_session_id, started_at, ended_at, end_reason, message_count, title) values ('20261118_061051_554510', 'telegram', 'stub', '20261118_060910_1c6473d5', 1794982251.254, 1794982251.811, 'compression', 5, 'Answer to: User: Message number 0. These are words ... l, not an interrogati... #2');
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, parent_session_id, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_061051_ef8e27', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', '20261118_061051_554510', 1794982251.826, 1794982264.69, 'compression', 15, 6765, 18, 'Answer to: User: Message number 0. These are words ... l, not an interrogati... #3', 2);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, parent_session_id, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_061104_e11389', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', '20261118_061051_ef8e27', 1794982264.694, 1794982300.182, 'compression', 17, 8519, 18, 'Answer to: User: Message number 0. These are words ... l, not an interrogati... #4', 2);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_061140_2bd652', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', '20261118_061104_e11389', 1794982300.218, 7, 4000, 9, 'Answer to: User: Message number 0. These are words ... l, not an interrogati... #5', 1);
insert into messages (id, session_id, role, content, timestamp) values (1, '20261118_060910_1c6473d5', 'user', 'Message number 0. These are words.', 1794982145.927);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (2, '20261118_060910_1c6473d5', 'assistant', 'Answer to: Message number 0. These are words that f ... l, not an interrogation.]', 1794982237.815, 'stop');
insert into messages (id, session_id, role, timestamp) values (3, '20261118_060910_1c6473d5', 'session_meta', 1794982238.391);
insert into messages (id, session_id, role, content, timestamp) values (4, '20261118_060910_1c6473d5', 'user', 'Message number 1. These are words.', 1794982238.982);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (5, '20261118_060910_1c6473d5', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1794982241.826, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (6, '20261118_060910_1c6473d5', 'user', 'Message number 2. These are words.', 1794982242.714);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (7, '20261118_060910_1c6473d5', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982245.813, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (8, '20261118_060910_1c6473d5', 'user', 'Message number 0. These are words.', 1794982145.927);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (9, '20261118_060910_1c6473d5', 'assistant', 'Answer to: Message number 0. These are words that f ... l, not an interrogation.]', 1794982250.906, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (10, '20261118_060910_1c6473d5', 'user', 'Message number 1. These are words.', 1794982238.982);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (11, '20261118_060910_1c6473d5', 'assistant', 'Answer to: Message number 1. These are words that f ... tory of the conversation.', 1794982250.97, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (12, '20261118_060910_1c6473d5', 'user', 'Message number 2. These are words.', 1794982242.714);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (13, '20261118_060910_1c6473d5', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982251.153, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (14, '20261118_060910_1c6473d5', 'user', 'Message number 3. These are words.', 1794982246.346);
insert into messages (id, session_id, role, content, timestamp) values (15, '20261118_061051_554510', 'user', 'Message number 0. These are words.', 1794982145.927);
insert into messages (id, session_id, role, content, timestamp) values (16, '20261118_061051_554510', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 1. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982251.378);
insert into messages (id, session_id, role, content, timestamp) values (17, '20261118_061051_554510', 'user', 'Message number 2. These are words.', 1794982242.714);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (18, '20261118_061051_554510', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982251.378, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (19, '20261118_061051_554510', 'user', 'Message number 3. These are words.', 1794982251.378);
insert into messages (id, session_id, role, content, timestamp) values (20, '20261118_061051_ef8e27', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982252.042);
insert into messages (id, session_id, role, content, timestamp) values (21, '20261118_061051_ef8e27', 'user', 'Message number 2. These are words.', 1794982242.714);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (22, '20261118_061051_ef8e27', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982252.042, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (23, '20261118_061051_ef8e27', 'user', 'Message number 3. These are words.', 1794982252.042);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (24, '20261118_061051_ef8e27', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1794982254.106, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (25, '20261118_061051_ef8e27', 'user', 'Message number 4. These are words.', 1794982254.634);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (26, '20261118_061051_ef8e27', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982261.282, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (27, '20261118_061051_ef8e27', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982264.107);
insert into messages (id, session_id, role, content, timestamp) values (28, '20261118_061051_ef8e27', 'user', 'Message number 2. These are words.', 1794982242.714);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (29, '20261118_061051_ef8e27', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982264.138, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (30, '20261118_061051_ef8e27', 'user', 'Message number 3. These are words.', 1794982252.042);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (31, '20261118_061051_ef8e27', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1794982264.418, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (32, '20261118_061051_ef8e27', 'user', 'Message number 4. These are words.', 1794982254.634);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (33, '20261118_061051_ef8e27', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982264.478, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (34, '20261118_061051_ef8e27', 'user', 'Message number 5. These are words.', 1794982262.23);
insert into messages (id, session_id, role, content, timestamp) values (35, '20261118_061104_e11389', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982264.742);
insert into messages (id, session_id, role, content, timestamp) values (36, '20261118_061104_e11389', 'user', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 3. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982264.742);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (37, '20261118_061104_e11389', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1794982264.742, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (38, '20261118_061104_e11389', 'user', 'Message number 4. These are words.', 1794982254.634);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (39, '20261118_061104_e11389', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982264.742, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (40, '20261118_061104_e11389', 'user', 'Message number 5. These are words.', 1794982264.742);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (41, '20261118_061104_e11389', 'assistant', 'Answer to: Message number 5. These are words that f ... tory of the conversation.', 1794982266.283, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (42, '20261118_061104_e11389', 'user', 'Message number 6. These are words.', 1794982268.77);
insert into messages (id, session_id, role, content, timestamp) values (43, '20261118_061104_e11389', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982299.095);
insert into messages (id, session_id, role, content, timestamp) values (44, '20261118_061104_e11389', 'user', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 3. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982264.742);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (45, '20261118_061104_e11389', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1794982299.45, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (46, '20261118_061104_e11389', 'user', 'Message number 4. These are words.', 1794982254.634);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (47, '20261118_061104_e11389', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982299.718, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (48, '20261118_061104_e11389', 'user', 'Message number 5. These are words.', 1794982264.742);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (49, '20261118_061104_e11389', 'assistant', 'Answer to: Message number 5. These are words that f ... tory of the conversation.', 1794982299.882, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (50, '20261118_061104_e11389', 'user', 'Message number 6 of the other gateway. These are words.', 1794982268.77);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (51, '20261118_061104_e11389', 'assistant', 'Answer to: Message number 6. These are words that f ... tory of the conversation.', 1794982300.067, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (52, '20261118_061140_2bd652', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982300.326);
insert into messages (id, session_id, role, content, timestamp) values (53, '20261118_061140_2bd652', 'user', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 4. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794982300.326);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (54, '20261118_061140_2bd652', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982300.326, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (55, '20261118_061140_2bd652', 'user', 'Message number 5. These are words.', 1794982264.742);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (56, '20261118_061140_2bd652', 'assistant', 'Answer to: Message number 5. These are words that f ... tory of the conversation.', 1794982300.326, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (57, '20261118_061140_2bd652', 'user', 'Message number 6 of the other gateway. These are words.', 1794982300.326);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (58, '20261118_061140_2bd652', 'assistant', 'Answer to: Message number 6 of the other gateway. T ... tory of the conversation.', 1794982302.771, 'stop');
insert into gateway_routing (scope, session_key, entry_json, updated_at) values ('/home/ada/.hermes/sessions', 'agent:main:telegram:dm:4242', '{"session_key": "agent:main:telegram:dm:4242", "session_id": "20261118_061140_2bd652", "created_at": "2026-11-18T06:09:10.969980", "updated_at": "2026-11-18T06:11:43.285262", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 4524, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}}', 1794982303.286);
