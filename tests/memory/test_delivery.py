"""Each turn that counts becomes due for a provider exactly once, and no unit mixes people or places.

A place is one per session or one per chat, and no writer is left without one.
"""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import AgentName, Principal, Provider, SessionId
from holdfast.memory.delivery import (
    DeliveryPolicy,
    NamingInputs,
    PerAddress,
    PerSession,
    TurnSpan,
    Unit,
    due_units,
)

EVERY_TURN = DeliveryPolicy(provider=Provider("local"))


@st.composite
def spans(draw: st.DrawFn) -> list[TurnSpan]:
    """Pending turns in order; some undone, some of another person or place, some numbers missing."""
    found: list[TurnSpan] = []
    turn = seq = 0
    for _ in range(draw(st.integers(0, 12))):
        turn += draw(st.sampled_from([1, 1, 1, 2]))
        first = seq + draw(st.sampled_from([1, 1, 3]))
        seq = first + draw(st.integers(0, 3))
        found.append(
            TurnSpan(
                n=turn,
                first_seq=first,
                last_seq=seq,
                place=draw(st.sampled_from(["bank", "vault"])),
                principal=Principal(draw(st.sampled_from(["ada", "bob"]))),
                directory=draw(st.sampled_from(["", None, "/app"])),
                repo=draw(st.sampled_from(["", None, "/"])),
                undone=draw(st.sampled_from([False, False, True])),
            )
        )
    return found


def within(unit: Unit, pending: list[TurnSpan]) -> list[TurnSpan]:
    return [span for span in pending if unit.from_turn <= span.n <= unit.through_turn]


@given(spans(), st.integers(1, 5))
def test_at_a_boundary_each_turn_that_counts_is_in_exactly_one_unit(pending, every):
    units = due_units(pending, replace(EVERY_TURN, every_turns=every), boundary=True)
    covered = [span for unit in units for span in within(unit, pending)]
    assert covered == [span for span in pending if not span.undone]


@given(spans(), st.integers(1, 5))
def test_before_a_boundary_all_become_due_together_or_none(pending, every):
    units = due_units(pending, replace(EVERY_TURN, every_turns=every), boundary=False)
    counted = [span for span in pending if not span.undone]
    expected = counted if counted and len(counted) >= every else []
    assert [span for unit in units for span in within(unit, pending)] == expected


@given(spans())
def test_no_unit_spans_a_change_of_person_place_or_directory(pending):
    for unit in due_units(pending, EVERY_TURN, boundary=True):
        assert len({(span.directory or "", span.repo or "") for span in within(unit, pending)}) == 1
        assert {(span.place, span.principal) for span in within(unit, pending)} == {(unit.place, unit.principal)}


@given(spans())
def test_the_range_of_a_unit_is_the_range_of_its_turns(pending):
    for unit in due_units(pending, EVERY_TURN, boundary=True):
        inside = within(unit, pending)
        assert (unit.from_seq, unit.through_seq) == (inside[0].first_seq, inside[-1].last_seq)
        assert not any(span.undone for span in inside)


@given(spans())
def test_units_are_in_order_and_never_overlap(pending):
    units = due_units(pending, EVERY_TURN, boundary=True)
    assert all(
        earlier.through_turn < later.from_turn and earlier.through_seq < later.from_seq
        for earlier, later in pairwise(units)
    )


def test_an_undone_turn_splits_the_unit_around_it():
    def turn(n: int, *, undone: bool = False) -> TurnSpan:
        return TurnSpan(n=n, first_seq=2 * n, last_seq=2 * n + 1, place="bank", principal=Principal("a"), undone=undone)

    units = due_units([turn(1), turn(2, undone=True), turn(3), turn(4)], EVERY_TURN, boundary=False)
    assert [(unit.from_turn, unit.through_turn) for unit in units] == [(1, 1), (3, 4)]


# --- places ------------------------------------------------------------------------------------------

HERE = "agent:main:telegram:dm:7"


def inputs(session: str, address: str) -> NamingInputs:
    return NamingInputs(
        agent=AgentName("main"), session=SessionId(session), principal=Principal("ada"), address=address
    )


def test_a_chat_keeps_its_place_in_every_session():
    assert PerAddress().place(inputs("ses_1", HERE)) == PerAddress().place(inputs("ses_2", HERE)) == HERE


def test_a_writer_without_a_chat_has_a_place_per_session():
    assert PerAddress().place(inputs("ses_1", "")) == "ses_1"


def test_a_session_has_its_own_place_in_any_chat():
    assert PerSession().place(inputs("ses_1", HERE)) == PerSession().place(inputs("ses_1", "")) == "ses_1"
