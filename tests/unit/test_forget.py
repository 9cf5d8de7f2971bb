"""The promise: whose words go is decided by who said them and in whose turn, and done means every receipt."""

import pytest

from holdfast.core.delivery import DeliveryState
from holdfast.core.forget import ErasurePart, Forgetting, Kind, turns_of, words_of
from holdfast.core.ids import AgentName, DeliveryId, ForgetId, Instant, Principal, Provider
from holdfast.core.journal import AssistantSaid, Entry, Forgotten, Noticed, Observed, ToolReturned, Undone, UserSaid

ADA = Principal("ada")


def journal(*said):
    """(turn, body) in order."""
    return [Entry(seq=n, turn=turn, body=body, tokens=1, at=Instant(0)) for n, (turn, body) in enumerate(said, start=1)]


def user(who):
    return UserSaid(text="x", principal=who)


def gone(principals, *said):
    entries = journal(*said)
    return sorted(words_of(ADA, turns_of(ADA, principals, entries), entries))


def test_all_steps_of_their_turn_go_but_for_what_others_said_in_it():
    tool = ToolReturned(call="c", name="clock", text="noon")
    said = [(1, user("ada")), (1, tool), (1, user("bob")), (1, Noticed(text="n")), (1, AssistantSaid(text="a"))]
    assert gone({1: "ada"}, *said) == [1, 2, 4, 5]


def test_in_a_turn_of_somebody_else_only_their_lines_go():
    assert gone({1: "bob"}, (1, user("bob")), (1, user("ada")), (1, AssistantSaid(text="a"))) == [2]


def test_a_turn_in_which_nobody_else_is_heard_is_theirs_whoever_owns_it():
    assert gone({1: "bob"}, (1, user("ada")), (1, AssistantSaid(text="a"))) == [1, 2]


def test_talk_without_a_turn_goes_by_its_speaker():
    overheard = [(0, Observed(text="x", principal=who)) for who in ("ada", "bob", "ada")]
    assert gone({}, *overheard) == [1, 3]


def test_undos_stay_and_what_is_blank_is_not_counted_again():
    undo = Undone(first_turn=1, last_turn=1, from_seq=1)
    assert gone({1: "ada"}, (1, user("ada")), (1, Forgotten()), (1, undo)) == [1]


@pytest.mark.parametrize("state", list(DeliveryState), ids=lambda state: state.value)
@pytest.mark.parametrize("scrubbed", [None, 1])
@pytest.mark.parametrize("swept", [None, 1])
def test_it_is_done_only_with_every_receipt(state, scrubbed, swept):
    part = ErasurePart(delivery=DeliveryId("d"), agent=AgentName("a"), provider=Provider("p"), place="x", state=state)
    found = Forgetting(
        id=ForgetId("f"),
        agent=None,
        kind=Kind.PERSON,
        subject="ada",
        requested_at=Instant(0),
        scrubbed_at=scrubbed,
        swept_at=swept,
        parts=(part,),
    )
    assert found.done == (state is DeliveryState.DELIVERED and scrubbed is not None and swept is not None)
