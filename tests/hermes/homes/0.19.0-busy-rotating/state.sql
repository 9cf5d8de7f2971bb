insert into schema_version (version) values (22);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, started_at, ended_at, end_reason, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_061841_f774ea59', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', 1794982722.174, 1794983043.17, 'compression', 32, 30231, 72, 'Answer to: User: Message number 1. These are words ... tory of the conversat...', 8);
insert into sessions (id, source, user_id, session_key, chat_id, chat_type, origin_json, model, parent_session_id, started_at, message_count, input_tokens, output_tokens, title, api_call_count) values ('20261118_062403_e824ff', 'telegram', '4242', 'agent:main:telegram:dm:4242', '4242', 'dm', '{"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}', 'stub', '20261118_061841_f774ea59', 1794983043.182, 8, 4068, 9, 'Answer to: User: Message number 1. These are words ... tory of the conversat... #2', 1);
insert into messages (id, session_id, role, timestamp) values (1, '20261118_061841_f774ea59', 'session_meta', 1794982878.847);
insert into messages (id, session_id, role, content, timestamp) values (2, '20261118_061841_f774ea59', 'user', 'Message number 0. These are words.', 1794982710.279);
insert into messages (id, session_id, role, content, timestamp) values (3, '20261118_061841_f774ea59', 'user', 'Message number 1. These are words.', 1794982884.186);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (4, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 0. These are words that f ... tory of the conversation.', 1794982927.838, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (5, '20261118_061841_f774ea59', 'user', 'Message number 2. These are words.', 1794982930.606);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (6, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982940.655, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (7, '20261118_061841_f774ea59', 'user', 'Message number 3. These are words.', 1794982945.65);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (8, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1794982955.188, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (9, '20261118_061841_f774ea59', 'user', 'Message number 4. These are words.', 1794982959.174);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (10, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982963.555, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (11, '20261118_061841_f774ea59', 'user', 'Message number 5. These are words.', 1794982966.234);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (12, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 5. These are words that f ... tory of the conversation.', 1794982970.239, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (13, '20261118_061841_f774ea59', 'user', 'Message number 6. These are words.', 1794982971.298);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (14, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 6. These are words that f ... tory of the conversation.', 1794982979.019, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (15, '20261118_061841_f774ea59', 'user', 'Message number 7. These are words.', 1794982981.002);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (16, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 7. These are words that f ... tory of the conversation.', 1794982988.042, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (17, '20261118_061841_f774ea59', 'user', 'Remember the blue bicycle, please.', 1794983020.282);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (18, '20261118_061841_f774ea59', 'assistant', 'Answer to: Remember the blue bicycle, please.', 1794983035.764, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (19, '20261118_061841_f774ea59', 'user', 'Message number 0. These are words.

Message number 1. These are words.', 1794982710.279);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (20, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 0. These are words that f ... tory of the conversation.', 1794982927.838, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (21, '20261118_061841_f774ea59', 'user', 'Message number 2. These are words.', 1794982930.606);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (22, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 2. These are words that f ... tory of the conversation.', 1794982940.655, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (23, '20261118_061841_f774ea59', 'user', 'Message number 3. These are words.', 1794982945.65);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (24, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 3. These are words that f ... tory of the conversation.', 1794982955.188, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (25, '20261118_061841_f774ea59', 'user', 'Message number 4. These are words.', 1794982959.174);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (26, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 4. These are words that f ... tory of the conversation.', 1794982963.555, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (27, '20261118_061841_f774ea59', 'user', 'Message number 5. These are words.', 1794982966.234);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (28, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 5. These are words that f ... tory of the conversation.', 1794982970.239, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (29, '20261118_061841_f774ea59', 'user', 'Message number 6. These are words.', 1794982971.298);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (30, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 6. These are words that f ... tory of the conversation.', 1794982979.019, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (31, '20261118_061841_f774ea59', 'user', 'Message number 7. These are words.', 1794982981.002);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (32, '20261118_061841_f774ea59', 'assistant', 'Answer to: Message number 7. These are words that f ... tory of the conversation.', 1794982988.042, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (39, '20261118_062403_e824ff', 'user', 'Message number 0. These are words.

Message number 1. These are words.', 1794982710.279);
insert into messages (id, session_id, role, content, timestamp) values (40, '20261118_062403_e824ff', 'assistant', '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
## Historical Task Snapshot
User asked (deterministic, from compacted turns): ''Message number 5. These are words....[truncated]''
Historical only; newer protected-tail messages after this summary win.

## Summary of the earlier conversation

--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---', 1794983043.971);
insert into messages (id, session_id, role, content, timestamp) values (41, '20261118_062403_e824ff', 'user', 'Message number 6. These are words.', 1794982971.298);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (42, '20261118_062403_e824ff', 'assistant', 'Answer to: Message number 6. These are words that f ... tory of the conversation.', 1794982979.019, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (43, '20261118_062403_e824ff', 'user', 'Message number 7. These are words.', 1794982981.002);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (44, '20261118_062403_e824ff', 'assistant', 'Answer to: Message number 7. These are words that f ... tory of the conversation.', 1794982988.042, 'stop');
insert into messages (id, session_id, role, content, timestamp) values (45, '20261118_062403_e824ff', 'user', 'And what now?', 1794983045.194);
insert into messages (id, session_id, role, content, timestamp, finish_reason) values (46, '20261118_062403_e824ff', 'assistant', 'Answer to: And what now?', 1794983074.163, 'stop');
insert into gateway_routing (scope, session_key, entry_json, updated_at) values ('/home/ada/.hermes/sessions', 'agent:main:telegram:dm:4242', '{"session_key": "agent:main:telegram:dm:4242", "session_id": "20261118_062403_e824ff", "created_at": "2026-11-18T06:18:41.900218", "updated_at": "2026-11-18T06:24:38.625992", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 4068, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "4242", "chat_name": null, "chat_type": "dm", "user_id": "4242", "user_name": "Ada", "thread_id": null, "chat_topic": null}}', 1794983078.626);
