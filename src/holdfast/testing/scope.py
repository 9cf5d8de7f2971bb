"""What can fail in a history: sizes, and the points at which a crash or a pause matters most."""

from holdfast.memory.provider import Provider
from holdfast.testing.crash import CrashPoint, points, points_of
from holdfast.testing.faults import FaultScope
from holdfast.testing.workload import MESSAGES
from holdfast.turns.tool import Tools

# Every verb of a worker and of the loops, in an order that never changes: plans are drawn from it by number, and a
# seed has to give the same history forever. A new verb goes to the end.
STRUCK = (
    *("record_spend", "sum_spent", "add_login", "see_login", "end_login", "end_logins", "record_action"),
    *("refuse_action", "note_settings", "ask_pairing", "decide_pairing", "unpair", "link_principals"),
    *("unlink_principal", "move_address", "move_chat", "intend_draft", "note_draft", "release_draft"),
    *("take_stray_drafts", "drop_draft", "claim_replies", "settle_reply", "next_reply_due", "resend_reply"),
    *("register_node", "renew_node", "retire_node", "reap_nodes", "accept_message", "note_position"),
    *("claim_mailbox", "claim_work", "read_mail", "release_claim", "open_turn", "resume_turn"),
    *("take_step", "end_turn", "decide_approval", "observe_messages", "record_turn", "claim_lanes"),
    *("settle_lanes", "hurry_lanes", "schedule_overdue", "next_overdue", "replay_delivery", "backfill_sessions"),
    *("next_due", "list_lane_keys", "run_command", "read_context", "begin_operation", "find_open_operation"),
    *("commit_summary", "end_operation", "apply_memory", "undo_memory", "begin_forgetting", "sweep_forgotten"),
    *("mark_scrubbed", "list_open_agents", "find_expired_sessions", "begin_finalisation", "claim_finalisation"),
    *("read_excerpt", "record_finalisation", "apply_finalisation", "retry_finalisation", "add_token"),
    *("revoke_token", "prove_write", "prune_messages", "changed", "close", "undo_recorded"),
)
NODES = 2
LEASE_MS = 3_000
STEPS = 1_200
STATEMENTS = 1_500
MODEL_CALLS = 20
PROVIDER_CALLS = 400
# A dispatcher that is paused while it holds a lane: before its call, after its call, before it settles.
NAPS = (CrashPoint("claim_lanes", "after"), CrashPoint("deliver", "after"), CrashPoint("settle_lanes", "before"))
# The same with a reply, in histories in which replies are posted.
POST_NAPS = (CrashPoint("claim_replies", "after"), CrashPoint("send", "after"), CrashPoint("settle_reply", "before"))
SENDING = (CrashPoint("send", "before"), CrashPoint("send", "after"))


def scope(nodes: int = NODES, *, chats: bool = False) -> FaultScope:
    return FaultScope(
        nodes=nodes,
        steps=STEPS,
        messages=MESSAGES,
        points=(*points_of(STRUCK), *points(Tools, Provider), *(SENDING if chats else ())),
        naps=NAPS,
        post_naps=POST_NAPS if chats else (),
        statements=STATEMENTS,
        model_calls=MODEL_CALLS,
        provider_calls=PROVIDER_CALLS,
        lease_ms=LEASE_MS,
    )
