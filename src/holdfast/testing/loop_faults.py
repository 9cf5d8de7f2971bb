"""Faults at the verbs of every loop: in some history, each loop meets failures and crashes at each verb it calls.

The plan of a seed draws its faults from all verbs of all ports, so faults hardly ever hit verbs that few histories use.
This module adds faults at a few verbs of the history's areas and of the loops that always run, early enough to happen.
"""

import random
from collections.abc import Mapping

from holdfast.testing.areas import Area
from holdfast.testing.crash import SIDES, CrashPoint
from holdfast.testing.faults import DOWN_MS_MAX, CrashAtVerb, Fault, VerbFails

FAULTS_MAX = 2
OCCURRENCES = 3
# The verbs that each loop calls in every history, and those that it calls only in histories of an area. Loops are drawn
# by the order of their names: a new name must not move the others.
LOOPS: Mapping[str, tuple[str, ...]] = {
    "worker": (
        "claim_work",
        "read_mail",
        "take_step",
        "end_turn",
        "release_claim",
    ),
    "compressor": ("read_context", "begin_operation", "commit_summary", "end_operation"),
    "dispatcher": ("list_lane_keys", "next_due", "next_overdue", "schedule_overdue", "claim_lanes", "settle_lanes"),
    "finisher": (
        *("list_open_agents", "claim_finalisation", "read_excerpt", "read_memory"),
        *("record_finalisation", "apply_finalisation"),
    ),
    "forgetter": ("find_newest_forgetting", "list_open_forgettings"),
    "reaper": ("register_node", "renew_node", "reap_nodes", "read_upcoming"),
    "recaller": ("linked_principals", "recall"),
}
IN_AREAS: Mapping[Area, Mapping[str, tuple[str, ...]]] = {
    Area.BACKFILL: {"backfill": ("backfill_sessions",)},
    Area.EXPIRY: {
        "finisher": ("find_expired_sessions", "begin_finalisation", "record_finalisation", "apply_finalisation")
    },
    Area.FORGETTING: {"forgetter": ("begin_forgetting", "sweep_forgotten", "mark_scrubbed")},
    Area.OPERATOR: {"operator": ("apply_memory", "undo_memory")},
    Area.PAUSES: {"worker": ("pause_agent", "resume_agent")},
    Area.PRUNING: {"reaper": ("prune_messages",)},
    Area.REBUILD: {"reindex": ("list_delivered_parcels", "rebuild")},  # apart from the dispatcher, which has many verbs
    Area.REPAIRS: {"dispatcher": ("repair_batch",)},
    Area.SPENDING: {"spending": ("sum_spent", "record_spend")},
    Area.STRANGERS: {"memory_notes": ("apply_memory", "read_shown_notes")},
}
IN_CHATS: Mapping[str, tuple[str, ...]] = {"post_sender": ("next_reply_due", "claim_replies", "settle_reply")}


def loops_of(areas: frozenset[Area], *, chats: bool) -> dict[str, tuple[str, ...]]:
    """The verbs at which a history may have faults, by loop."""
    parts = [LOOPS, *(IN_AREAS[area] for area in sorted(areas, key=str)), *([IN_CHATS] if chats else [])]
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for loop, verbs in part.items():
            found[loop] = tuple(dict.fromkeys((*found.get(loop, ()), *verbs)))
    return found


def draw_at_loops(seed: int, areas: frozenset[Area], *, chats: bool) -> list[Fault]:
    rng = random.Random(f"{seed}/loops")
    loops = loops_of(areas, chats=chats)
    struck = [rng.choice(sorted(loops)) for _ in range(rng.randrange(FAULTS_MAX + 1))]
    # The verbs of an area always get a fault: few histories have the area.
    struck += [rng.choice(sorted(IN_AREAS[area])) for area in sorted(areas, key=str)]
    return [_fault(rng, loops[loop]) for loop in struck]


def _fault(rng: random.Random, verbs: tuple[str, ...]) -> Fault:
    point = CrashPoint(rng.choice(verbs), rng.choice(SIDES))
    occurrence = 1 if rng.random() < 0.5 else 1 + rng.randrange(OCCURRENCES)
    down_ms = rng.randrange(DOWN_MS_MAX)
    return VerbFails(point, occurrence) if rng.random() < 0.6 else CrashAtVerb(point, occurrence, down_ms)
