"""One short workload, with a crash before and after every verb and before every statement of it.

Two nodes process it. It has turns with tools, a command of each kind, compression, observed messages, recorded turns,
a worker that dies in a turn and a node that is shut down, so that nearly every verb is used.
"""

import pytest

from holdfast.memory.provider import Provider
from holdfast.testing import CrashPoint, FaultPlan, points
from holdfast.testing.crash import points_of
from holdfast.testing.faults import CrashAtStatement, CrashAtVerb, Kill, ModelFailure, ModelFault, Stop, VerbFails
from holdfast.testing.history import run_history, scratch
from holdfast.testing.report import describe
from holdfast.testing.scope import STRUCK
from holdfast.testing.workload import CHATS, FILLER, Say
from holdfast.turns.tool import Tools

SEED = 68
HOME, CLUB = CHATS[0], CHATS[1]
LONG = FILLER * 4
TEXTS = [
    (HOME, f"m00 use pay look {LONG}"),
    (HOME, f"m01 {LONG}"),
    (CLUB, "m02 aside"),
    (HOME, f"m03 {LONG}"),
    (HOME, "/undo"),
    (HOME, "/compress"),
    (HOME, "/branch alpha"),
    (HOME, f"m07 use pay {LONG}"),
    (HOME, "/status"),
    (HOME, "/new"),
    (HOME, "m10"),
]
STORY = [
    Say(
        n=n,
        at_ms=200 * n,
        chat=chat,
        sender="ada",
        text=text,
        addressed=chat is HOME,
        human=True,
        conflicts=n == 1,
    )
    for n, (chat, text) in enumerate(TEXTS)
]
TROUBLES = (
    Kill(step=280, node=0, down_ms=300),
    Kill(step=420, node=1, down_ms=300),
    Stop(step=700, node=0, down_ms=300),
    ModelFault(3, ModelFailure.GARBAGE, 0),
)
UNUSED = {
    "claim_mailbox",  # workers claim several at a time
    "prove_write",  # used by health checks only
    "prune_messages",  # comes after an hour
    "find_open_operation",  # asked when two compressions meet
    "end_operation",
    *(
        "replay_delivery",
        "backfill_sessions",
        "schedule_overdue",
        "apply_memory",
        "undo_memory",
    ),  # not requested here
    *("find_expired_sessions", "begin_finalisation", "retry_finalisation"),  # nothing expires
    *("begin_forgetting", "mark_scrubbed", "sweep_forgotten"),  # and nothing is forgotten
    "decide_approval",  # people decide in their chats
    *(
        "ask_pairing",
        "decide_pairing",
        "unpair",
        "link_principals",
        "unlink_principal",
    ),  # there are no strangers and operators;
    *("move_address", "move_chat"),  # the tests of the scripts repeat each of these after a commit
    *(
        "note_position",
        "add_token",
        "revoke_token",
        *("add_login", "see_login", "end_login", "end_logins"),
        "record_spend",
        "sum_spent",
    ),  # nor channels and spending
    *("record_action", "refuse_action", "note_settings"),  # recorded beside the store's own acts
    "changed",  # a node polls for what is due instead
    *("claim_replies", "settle_reply", "next_reply_due", "resend_reply"),  # tested in test_reply_points
    *(
        "intend_draft",
        "note_draft",
        "release_draft",
        "take_stray_drafts",
        "drop_draft",
    ),  # tested in outbox/test_draft_flow.py
}
USED = [
    point
    for point in [*points_of(STRUCK), *points(Tools, Provider)]
    if point.verb not in UNUSED | {"healthy", "landed"}
]
VERBS = list(dict.fromkeys(point.verb for point in USED))
STATEMENTS_PER_TEST = 25
STATEMENTS_MAX = 1_000
STRIDE = 3  # of the statements, one in so many before every push and each one alone in the soak
TOGETHER = 3  # deaths in one story before every push


def live(*faults):
    with scratch() as folder:
        return run_history(SEED, folder=folder, plan=FaultPlan(faults), says=STORY)


@pytest.fixture(scope="module")
def calm():
    return live()


def test_the_story_uses_nearly_every_verb():
    told = live(*TROUBLES)
    assert told.violations == ()
    passed = {point.verb for point in told.passed if isinstance(point, CrashPoint)}
    assert {point.verb for point in [*points_of(STRUCK), *points(Tools)]} - passed <= UNUSED


def both_sides(verb):
    return CrashPoint(verb, "before"), CrashPoint(verb, "after")


def test_the_points_are_both_sides_of_every_verb():
    assert set(USED) == {point for verb in VERBS for point in both_sides(verb)}


def assert_survives(verb, fault, occurrences):
    """Strike both sides of a verb, each at the first of the occurrences that it has.

    One story has both: the verb is called again after a fault before it. A side that was not reached then, since nobody
    called the verb again, is struck in another story.
    """
    left = set(both_sides(verb))
    for occurrence in occurrences:
        if left:
            verdict = live(*TROUBLES, *(fault(point, occurrence) for point in sorted(left)))
            assert describe(SEED, verdict.violations) == describe(SEED, ())
            left -= set(verdict.struck)
    assert left == set()


@pytest.mark.parametrize("verb", VERBS)
def test_the_process_may_die_before_and_after_any_verb(verb):
    assert_survives(verb, lambda point, occurrence: CrashAtVerb(point, occurrence, down_ms=500), (1, 1))


@pytest.mark.parametrize("verb", VERBS)
def test_any_verb_may_fail_before_and_after_its_work(verb):
    assert_survives(verb, VerbFails, (3, 2, 1, 1))


@pytest.mark.soak
@pytest.mark.parametrize("occurrence", [1, 3])
@pytest.mark.parametrize("point", USED, ids=str)
def test_the_process_may_die_at_any_verb(point, occurrence):
    verdict = live(*TROUBLES, CrashAtVerb(point, occurrence, down_ms=500))
    assert describe(SEED, verdict.violations) == describe(SEED, ())


@pytest.mark.soak
@pytest.mark.parametrize("occurrence", [1, 3])
@pytest.mark.parametrize("point", USED, ids=str)
def test_any_verb_may_fail_and_its_answer_be_lost(point, occurrence):
    verdict = live(*TROUBLES, VerbFails(point, occurrence))
    assert describe(SEED, verdict.violations) == describe(SEED, ())


@pytest.mark.parametrize("first", range(1, STATEMENTS_MAX // TOGETHER, STATEMENTS_PER_TEST))
def test_the_process_may_die_before_several_statements(first, calm):
    """In one story, as far apart as possible: each death finds other work than the one before it."""
    statements = calm.passed["statement"]
    assert statements <= STATEMENTS_MAX
    apart = -(-statements // TOGETHER)
    for occurrence in range(first, min(first + STATEMENTS_PER_TEST, apart + 1), STRIDE):
        deaths = [CrashAtStatement(n, down_ms=500) for n in range(occurrence, statements + 1, apart)]
        verdict = live(*deaths)
        assert describe(occurrence, verdict.violations) == describe(occurrence, ())
        assert verdict.crashes.total() == len(deaths)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1, STATEMENTS_MAX, STATEMENTS_PER_TEST))
def test_the_process_may_die_before_any_statement(first, calm):
    assert calm.passed["statement"] <= STATEMENTS_MAX
    last = min(first + STATEMENTS_PER_TEST, calm.passed["statement"] + 1)
    for occurrence in range(first, last):
        verdict = live(CrashAtStatement(occurrence, down_ms=500))
        assert describe(occurrence, verdict.violations) == describe(occurrence, ())
