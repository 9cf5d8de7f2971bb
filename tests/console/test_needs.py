"""What several agents miss alike is one row of the overview, and what only one misses stays its own."""

from holdfast.console.needs import gathered
from holdfast.kernel.ids import Instant
from holdfast.monitor.status import Need, NeedKind, Urgency


def need(kind, agent, name, urgency=Urgency.MENDS, *, since=1, until=9):
    return Need(
        urgency=urgency,
        kind=kind,
        agent=agent,
        name=name,
        what=f"The {kind.value} {name} of {agent} does not answer",
        evidence="502",
        since=Instant(since),
        until=None if until is None else Instant(until),
    )


def told(*needs):
    return [(one.what, one.since, one.until) for one in gathered(needs)]


def test_a_model_that_several_agents_use_is_one_row_with_the_oldest_time_and_the_next_try():
    found = gathered(
        [
            need(NeedKind.MODEL, "b", "gpt", Urgency.STUCK, since=5, until=30),
            need(NeedKind.MODEL, "a", "gpt", Urgency.STUCK, since=3, until=20),
        ]
    )
    assert [(one.what, one.evidence, one.since, one.until) for one in found] == [
        ("The model gpt of 2 agents does not answer", "a, b: 502", 3, 20)
    ]


def test_things_with_other_names_or_another_urgency_stay_apart():
    assert len(told(need(NeedKind.MODEL, "a", "gpt"), need(NeedKind.MODEL, "b", "claude"))) == 2
    assert len(told(need(NeedKind.MODEL, "a", "gpt"), need(NeedKind.MODEL, "b", "gpt", Urgency.HOLDS_UP))) == 2
    assert len(told(need(NeedKind.CHANNEL, "a", "telegram"), need(NeedKind.CHANNEL, "b", "telegram"))) == 2


def test_a_provider_that_is_away_is_told_once_by_its_deliveries():
    found = told(
        need(NeedKind.DELIVERY, "a", "honcho", since=4),
        need(NeedKind.MEMORY, "a", "honcho", since=2),
        need(NeedKind.DELIVERY, "b", "honcho", since=7),
        need(NeedKind.MEMORY, "a", "hindsight"),
    )
    assert found == [
        ("honcho takes no deliveries of 2 agents; they are tried again in order, none lost", 4, 9),
        ("The memory hindsight of a does not answer", 1, 9),
    ]


def test_a_parked_delivery_is_not_taken_for_a_provider_that_is_away():
    found = told(
        need(NeedKind.DELIVERY, "a", "honcho", Urgency.DECIDE, until=None),
        need(NeedKind.DELIVERY, "b", "honcho", Urgency.DECIDE, until=None),
    )
    assert len(found) == 2
