"""The speaker and the turn of an entry decide whether it is forgotten, and forgetting is done when every receipt is
there.
"""

import pytest

from holdfast.kernel.ids import AgentName, DeliveryId, ForgetId, Instant, Provider
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.forget import ErasurePart, ForgetKind, Forgetting, HeardWords, turns_of

OWN, PASSED, OTHER = (True, False), (False, True), (False, False)


def gone(owned, *heard):
    """The turns that go; `heard` is (turn, whose) in order."""
    return sorted(turns_of(owned, [HeardWords(n, turn, *whose) for n, (turn, whose) in enumerate(heard, start=1)]))


def test_a_turn_of_the_person_is_deleted_even_if_others_are_heard_in_it():
    assert gone({1}, (1, OWN), (1, OTHER)) == [1]


def test_a_turn_of_somebody_else_in_which_they_are_heard_stays():
    assert gone((), (1, OTHER), (1, OWN)) == []


def test_a_turn_with_only_the_persons_words_is_theirs_for_any_owner():
    assert gone((), (1, OWN), (2, OTHER)) == [1]


def test_a_turn_that_answers_forwarded_words_is_deleted_even_if_others_are_heard_in_it():
    assert gone((), (1, OTHER), (1, PASSED), (2, OTHER)) == [1]


def test_talk_without_a_turn_is_no_turn():
    assert gone((), (0, OWN), (0, PASSED)) == []


@pytest.mark.parametrize("state", list(DeliveryState), ids=lambda state: state.value)
@pytest.mark.parametrize("scrubbed", [None, 1])
@pytest.mark.parametrize("swept", [None, 1])
def test_it_is_done_only_with_every_receipt(state, scrubbed, swept):
    part = ErasurePart(delivery=DeliveryId("d"), agent=AgentName("a"), provider=Provider("p"), place="x", state=state)
    found = Forgetting(
        id=ForgetId("f"),
        agent=None,
        kind=ForgetKind.PERSON,
        subject="ada",
        requested_at=Instant(0),
        scrubbed_at=scrubbed,
        swept_at=swept,
        parts=(part,),
    )
    assert found.done == (state is DeliveryState.DELIVERED and scrubbed is not None and swept is not None)
