"""A short story with answers, on a platform that fails now and then, with the process dying before and after every
verb of the ledger, around every post, and before every single statement: each reply is shown once, or uncertain."""

import pytest

from holdfast.testing import CrashPoint, FaultPlan
from holdfast.testing.chats import has_chats
from holdfast.testing.crash import points_of
from holdfast.testing.faults import CrashAtStatement, CrashAtVerb, PauseAtVerb, VerbFails
from holdfast.testing.history import run_history, scratch
from holdfast.testing.report import describe
from holdfast.testing.scope import LEASE_MS, POST_NAPS, SENDING
from holdfast.testing.workload import CHATS, FILLER, Say

SEED = 117
TEXTS = [(CHATS[0], f"m00 {FILLER}"), (CHATS[2], f"m01 {FILLER}"), (CHATS[3], "m02"), (CHATS[0], "/status")]
STORY = [
    Say(n=n, at_ms=300 * n, chat=chat, sender="ada", text=text, addressed=True, human=True, conflicts=False)
    for n, (chat, text) in enumerate(TEXTS)
]
LEDGER = ("claim_replies", "settle_reply", "next_reply_due", "resend_reply")
BY_HAND = {"resend_reply"}  # an operator's
USED = [*(point for point in points_of(LEDGER) if point.verb not in BY_HAND), *SENDING]
STATEMENTS_PER_TEST = 50
STATEMENTS_MAX = 550
STRIDE = 10  # of the statements, one in so many before every push and each one alone in the soak
TOGETHER = 3  # deaths in one story before every push

LATER = pytest.param(3, marks=pytest.mark.soak)


def live(*faults):
    with scratch() as folder:
        return run_history(SEED, folder=folder, plan=FaultPlan(faults), says=STORY)


@pytest.fixture(scope="module")
def calm():
    return live()


def test_the_story_uses_every_verb_of_the_ledger(calm):
    assert has_chats(SEED)
    assert calm.violations == ()
    passed = {point.verb for point in calm.passed if isinstance(point, CrashPoint)}
    assert {point.verb for point in points_of(LEDGER)} - passed == BY_HAND
    assert calm.counts["post"] > len(TEXTS), "some of it goes wrong, and long replies are sent in pieces"


@pytest.mark.parametrize("occurrence", [1, LATER])
@pytest.mark.parametrize("point", USED, ids=str)
def test_the_process_may_die_at_any_verb(point, occurrence):
    verdict = live(CrashAtVerb(point, occurrence, down_ms=500))
    assert describe(SEED, verdict.violations) == describe(SEED, ())


@pytest.mark.parametrize("point", [point for point in USED if point.verb != "send"], ids=str)
def test_any_verb_may_fail_and_its_answer_be_lost(point):
    verdict = live(VerbFails(point, 1), VerbFails(point, 2))
    assert describe(SEED, verdict.violations) == describe(SEED, ())


@pytest.mark.parametrize("occurrence", [1, LATER])
@pytest.mark.parametrize("point", POST_NAPS, ids=str)
def test_a_reply_sender_may_sleep_through_its_lease(point, occurrence):
    verdict = live(PauseAtVerb(point, occurrence, length_ms=LEASE_MS * 2))
    assert describe(SEED, verdict.violations) == describe(SEED, ())


def test_the_process_may_die_before_several_statements(calm):
    """In one story, as far apart as possible: each death finds other work than the one before it."""
    statements = calm.passed["statement"]
    apart = -(-statements // TOGETHER)
    for occurrence in range(1, apart + 1, STRIDE):
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
