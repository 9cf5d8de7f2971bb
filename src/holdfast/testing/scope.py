"""What there is to break in a history: sizes, and the places at which it matters most that a node dies or sleeps."""

from holdfast.memory.provider import Provider
from holdfast.store.protocols.store import Store
from holdfast.testing.crash import CrashPoint, points
from holdfast.testing.faults import Scope
from holdfast.testing.workload import MESSAGES
from holdfast.turns.tool import Tools

NODES = 2
LEASE_MS = 3_000
STEPS = 1_200
STATEMENTS = 1_500
MODEL_CALLS = 20
PROVIDER_CALLS = 400
# A courier that sleeps with a lane in its hand: before it calls, after it called, before it tells what came of it.
NAPS = (CrashPoint("claim_lanes", "after"), CrashPoint("deliver", "after"), CrashPoint("settle_lanes", "before"))
# The same with a reply, in histories in which replies are posted.
POST_NAPS = (CrashPoint("claim_replies", "after"), CrashPoint("send", "after"), CrashPoint("settle_reply", "before"))
SENDING = (CrashPoint("send", "before"), CrashPoint("send", "after"))


def scope(nodes: int = NODES, *, chats: bool = False) -> Scope:
    return Scope(
        nodes=nodes,
        steps=STEPS,
        messages=MESSAGES,
        points=(*points(Store, Tools, Provider), *(SENDING if chats else ())),
        naps=NAPS,
        post_naps=POST_NAPS if chats else (),
        statements=STATEMENTS,
        model_calls=MODEL_CALLS,
        provider_calls=PROVIDER_CALLS,
        lease_ms=LEASE_MS,
    )
