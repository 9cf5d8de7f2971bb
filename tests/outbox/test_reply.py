"""For every answer of a platform, a reply ends as delivered only when it was certainly posted once, as failed only when
it was not posted, and is never posted a third time automatically (D26).
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.address import parse
from holdfast.kernel.ids import MessageId, NodeId, ReplyId
from holdfast.outbox.draft import DraftFate
from holdfast.outbox.post import PULLED, Declined, Doubtful, NotSent, OnDoubt, ReplyState, Sent
from holdfast.outbox.reply import (
    OPEN_DOUBT,
    ReplyClaim,
    SendPolicy,
    after_send,
    chat_of,
    is_possible_duplicate,
    untried,
)

OUTCOMES = st.one_of(
    st.just(Sent("r")), st.just(NotSent("away")), st.just(Declined("blocked")), st.just(Doubtful("cut off"))
)
OPEN = {ReplyState.PENDING, ReplyState.ATTEMPTING}


def claim(**how):
    made = ReplyClaim(
        n=1,
        id=ReplyId("rep_1"),
        node=NodeId("node_a"),
        attempt=1,
        part=0,
        doubts=0,
        address=parse("agent:fern:telegram:dm:7"),
        text="hi",
        message=MessageId("msg_1"),
    )
    return replace(made, **how)


def settle(held, outcome, *, parts=1, on_doubt=OnDoubt.RESEND, nonce_lasts_ms=0, pace_ms=0, elapsed_ms=10):
    return after_send(
        held,
        outcome,
        parts=parts,
        on_doubt=on_doubt,
        nonce_lasts_ms=nonce_lasts_ms,
        pace_ms=pace_ms,
        elapsed_ms=elapsed_ms,
        policy=SendPolicy(),
        chance=0.5,
    )


@given(st.lists(OUTCOMES, max_size=40), st.integers(1, 4), st.sampled_from(OnDoubt))
def test_an_uncertain_piece_is_never_sent_a_third_time_and_stays_uncertain(outcomes, parts, on_doubt):
    held, state = claim(), ReplyState.PENDING
    possible = [0] * parts  # how often each piece may have been posted
    for outcome in outcomes:
        possible[held.part] += isinstance(outcome, Sent | Doubtful)
        settled = settle(held, outcome, parts=parts, on_doubt=on_doubt)
        state = settled.state
        held = replace(held, part=settled.part, doubts=settled.doubts, attempt=held.attempt + 1)
        if state not in OPEN:
            break
    assert max(possible) <= (2 if on_doubt is OnDoubt.RESEND else 1)
    if state is ReplyState.DELIVERED:
        assert possible == [1] * parts
    if state is ReplyState.FAILED:
        assert max(possible) <= 1
    assert is_possible_duplicate(state.value, held.doubts) == (state is ReplyState.UNCERTAIN and max(possible) == 2)


def test_a_piece_is_followed_by_the_next_at_once_or_after_a_rest():
    assert settle(claim(), Sent("r"), parts=2).state is ReplyState.ATTEMPTING
    rests = settle(claim(), Sent("r"), parts=2, pace_ms=1_000)
    assert (rests.state, rests.part, rests.delay_ms) == (ReplyState.PENDING, 1, 1_000)


def test_a_nonce_proves_that_nothing_was_doubled_only_while_the_platform_knows_it():
    doubtful = claim(doubts=1, doubtful_for_ms=900)
    assert settle(doubtful, Sent("r"), nonce_lasts_ms=1_000, elapsed_ms=100).state is ReplyState.DELIVERED
    late = settle(doubtful, Sent("r"), nonce_lasts_ms=1_000, elapsed_ms=101)
    assert (late.state, late.doubts) == (ReplyState.UNCERTAIN, 2)


def test_a_channel_that_looked_resolves_the_doubt():
    settled = settle(claim(doubts=1, doubtful_for_ms=900), Sent("r", proved=True))
    assert (settled.state, settled.doubts) == (ReplyState.DELIVERED, 0)
    beyond = settle(claim(doubts=2, part=1), Sent("r", proved=True), parts=2)
    assert (beyond.state, beyond.doubts) == (ReplyState.UNCERTAIN, 2)


def test_a_channel_that_looked_proves_it_however_late():
    doubtful = claim(doubts=1, doubtful_for_ms=10**9)
    assert settle(doubtful, Sent("r", proved=True)).state is ReplyState.DELIVERED
    assert settle(replace(doubtful, doubts=2), Sent("r", proved=True)).state is ReplyState.UNCERTAIN


def test_a_nonce_proves_nothing_about_an_earlier_piece():
    beyond = claim(doubts=2, part=1)
    settled = settle(beyond, Sent("r"), parts=2, nonce_lasts_ms=10_000)
    assert (settled.state, settled.doubts) == (ReplyState.UNCERTAIN, 2)


def test_what_may_have_been_posted_is_sent_once_more_soon_however_often_it_was_turned_away_before():
    settled = settle(claim(attempt=11), Doubtful("cut off"))
    assert (settled.state, settled.doubts, settled.delay_ms) == (ReplyState.PENDING, 1, 1_000)


def test_a_doubt_is_held_where_the_policy_says_so():
    settled = settle(claim(), Doubtful("cut off"), on_doubt=OnDoubt.HOLD)
    assert (settled.state, settled.doubts) == (ReplyState.UNCERTAIN, 1)
    assert "cut off" in settled.reason


def test_what_the_platform_asked_for_is_respected():
    assert settle(claim(), NotSent("slow down", 90_000)).delay_ms == 90_000
    assert settle(claim(attempt=4), NotSent("away")).delay_ms == 8_000


@pytest.mark.parametrize(("asked_ms", "waits_ms"), [(1, 1_000), (500, 1_000), (7_250, 7_250)])
def test_who_was_turned_away_often_waits_no_longer_than_was_asked(asked_ms, waits_ms):
    """After many restarts a channel that is not ready for a moment had held up single replies for minutes."""
    assert settle(claim(attempt=11), NotSent("not ready", asked_ms)).delay_ms == waits_ms


def test_a_platform_that_is_away_is_tried_for_a_day_at_least():
    tired = claim(attempt=1_000, waited_ms=3_600_000)
    assert settle(tired, NotSent("away")).state is ReplyState.PENDING
    old = replace(tired, waited_ms=SendPolicy().give_up_ms)
    assert settle(old, NotSent("away")).state is ReplyState.FAILED
    assert settle(replace(old, doubts=1), NotSent("away")).state is ReplyState.UNCERTAIN


def test_what_was_declined_after_a_doubt_is_uncertain():
    assert settle(claim(), Declined("blocked")).state is ReplyState.FAILED
    assert settle(claim(doubts=1), Declined("blocked")).state is ReplyState.UNCERTAIN


def test_what_was_not_tried_stays_as_it_was():
    given_back = untried(claim(part=2, doubts=1))
    assert (given_back.state, given_back.part, given_back.doubts) == (ReplyState.PENDING, 2, 1)


def test_a_platforms_words_fit_on_a_line():
    reason = settle(claim(), Declined("a\0b\n" * 400)).reason
    assert len(reason) == 400
    assert "\n" not in reason
    assert "\0" not in reason


@pytest.mark.parametrize("address", ["agent:f:tg:group:-1", "agent:f:tg:group:-1:9", "agent:f:tg:group:-1::ada"])
def test_threads_and_people_of_a_chat_share_its_pace(address):
    assert chat_of(address) == "agent:f:tg:group:-1"


# --- a draft whose place is taken ------------------------------------------------------------------


@given(st.lists(OUTCOMES, max_size=20), st.integers(1, 3), st.sampled_from(OnDoubt))
def test_an_edit_of_a_draft_is_repeated_until_it_is_certain_and_leaves_no_doubt_then(outcomes, parts, on_doubt):
    held, in_doubt = claim(draft="77"), False
    for outcome in outcomes:
        settled = settle(held, outcome, parts=parts, on_doubt=on_doubt)
        if isinstance(outcome, Sent):
            assert (settled.draft, settled.part, settled.receipt) == (DraftFate.REPLACED, 1, "r")
            assert settled.doubts == 0
            break
        if isinstance(outcome, Declined):
            is_held = in_doubt and on_doubt is OnDoubt.HOLD
            assert settled.state is (ReplyState.UNCERTAIN if is_held else ReplyState.ATTEMPTING)
            assert (settled.draft, settled.part, settled.doubts > 0) == (DraftFate.GONE, 0, in_doubt)
            break
        in_doubt |= isinstance(outcome, Doubtful)
        is_given_up = isinstance(outcome, Doubtful) and held.attempt >= SendPolicy().doubtful_edits_max
        state = ReplyState.UNCERTAIN if is_given_up else ReplyState.PENDING
        assert (settled.draft, settled.state, settled.doubts) == (None, state, int(in_doubt))
        if is_given_up:
            break
        held = replace(held, attempt=held.attempt + 1, doubts=settled.doubts)


@pytest.mark.parametrize("outcome", [Sent("78"), Declined("blocked"), Doubtful("lost")])
def test_an_uncertain_edit_that_cannot_be_repeated_is_never_shown_as_certain(outcome):
    """It may have landed: then the reply stands there already, and a new message is its double."""
    held = claim(draft="77")
    held = replace(held, attempt=2, doubts=settle(held, Doubtful("lost")).doubts)
    sends = held.after(settle(held, Declined("edit_window_closed")))
    assert not sends.edits
    settled = settle(sends, outcome, nonce_lasts_ms=120_000)
    assert is_possible_duplicate(settled.state.value, settled.doubts)


def test_a_reply_whose_draft_is_gone_is_sent_as_any_other():
    held = claim(draft="77", attempt=3)
    sends = held.after(settle(held, Declined("message to edit not found")))
    assert (sends.edits, sends.attempt, sends.part) == (False, 3, 0)
    assert settle(sends, Doubtful("lost")).doubts == 1


def test_only_the_first_piece_takes_a_drafts_place():
    held = claim(draft="77")
    assert held.edits
    assert not held.after(settle(held, Sent("77"), parts=2)).edits


def test_an_edit_that_stays_uncertain_delays_its_chat_for_minutes_only():
    held, waited_ms = claim(draft="77"), 0
    while (settled := settle(held, Doubtful("lost"))).state is ReplyState.PENDING:
        held, waited_ms = replace(held, attempt=held.attempt + 1, doubts=settled.doubts), waited_ms + settled.delay_ms
    assert (settled.state, settled.doubts) == (ReplyState.UNCERTAIN, 1)
    assert "lost" in settled.reason
    assert 60_000 < waited_ms < 300_000


def test_an_edit_that_certainly_did_not_pass_for_a_day_is_given_up_as_failed():
    held = claim(draft="77", attempt=40, waited_ms=SendPolicy().give_up_ms)
    assert settle(held, NotSent("away")).state is ReplyState.FAILED


def test_an_empty_reply_fails_whether_it_has_a_draft_or_not():
    assert settle(claim(draft="77"), Declined("there is nothing in it to send"), parts=0).state is ReplyState.FAILED


@pytest.mark.parametrize(("doubts", "doubtful"), [(0, False), (OPEN_DOUBT, True), (OPEN_DOUBT + 1, False)])
def test_a_channel_is_told_whether_the_last_attempt_may_have_arrived(doubts, doubtful):
    post = claim(doubts=doubts, doubtful_for_ms=70).post(("hi",))
    assert (post.doubtful, post.doubtful_for_ms) == (doubtful, 70 if doubtful else 0)


@pytest.mark.parametrize("channel", ["http", "openai", "terminal"])
def test_replies_that_are_fetched_are_never_pushed(channel):
    assert channel in PULLED


def test_a_draft_gives_its_place_to_the_first_piece_only():
    assert claim(draft="77").edits
    assert not claim(draft="77", part=1).edits
    assert not claim().edits


def test_the_next_piece_starts_without_the_doubt_of_the_one_before():
    held = claim(doubts=OPEN_DOUBT, doubtful_for_ms=70, attempt=3)
    later = held.after(settle(held, Sent("r", proved=True), parts=2))
    assert (later.part, later.attempt, later.doubts, later.doubtful_for_ms) == (1, 1, 0, 0)


def test_a_reply_is_given_up_only_after_many_attempts_and_a_day():
    last, day = SendPolicy().attempts_max, SendPolicy().give_up_ms
    assert settle(claim(attempt=last - 1, waited_ms=day), NotSent("away")).state is ReplyState.PENDING
    assert settle(claim(attempt=last, waited_ms=day - 1), NotSent("away")).state is ReplyState.PENDING
    assert settle(claim(attempt=last, waited_ms=day), NotSent("away")).state is ReplyState.FAILED


def test_an_edit_that_succeeded_settles_the_uncertain_one_before():
    settled = settle(claim(draft="77", doubts=OPEN_DOUBT + 1), Sent("r"))
    assert (settled.state, settled.doubts) == (ReplyState.DELIVERED, 0)


def test_an_uncertain_edit_is_tried_as_often_as_the_policy_says():
    most = SendPolicy().doubtful_edits_max
    assert settle(claim(draft="77", attempt=most - 1), Doubtful("cut off")).state is ReplyState.PENDING
    assert settle(claim(draft="77", attempt=most), Doubtful("cut off")).state is ReplyState.UNCERTAIN


def test_only_an_uncertain_reply_may_stand_twice():
    assert is_possible_duplicate("uncertain", OPEN_DOUBT + 1)
    assert not is_possible_duplicate("uncertain", OPEN_DOUBT)
    assert not is_possible_duplicate("pending", OPEN_DOUBT + 1)
