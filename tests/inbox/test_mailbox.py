"""A turn takes messages from the head of the mailbox, never past a command and never of two people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.mailbox import plain_run, take
from holdfast.inbox.message import Inbound, MessageKind, MessageState
from holdfast.kernel.ids import Instant, MessageId, Principal
from holdfast.turns.policy import Arrivals


def waiting(*items: tuple[str, MessageKind]) -> tuple[Inbound, ...]:
    return tuple(
        Inbound(
            message=MessageId(f"msg_{seq}"),
            seq=seq,
            event_id=str(seq),
            principal=Principal(principal),
            channel="http",
            kind=kind,
            human=True,
            hop=0,
            text="hello",
            state=MessageState.WAITING,
            at=Instant(seq),
        )
        for seq, (principal, kind) in enumerate(items, start=1)
    )


mail = st.lists(st.tuples(st.sampled_from(["ada", "bob"]), st.sampled_from(MessageKind)), max_size=8).map(
    lambda items: waiting(*items)
)


@given(mail)
def test_the_run_is_the_longest_head_of_plain_messages_of_one_person(items):
    run = plain_run(items)
    assert items[: len(run)] == run
    assert all(item.kind is MessageKind.TEXT and item.principal == run[0].principal for item in run)
    if len(run) < len(items):
        following = items[len(run)]
        assert following.kind is not MessageKind.TEXT or (run and following.principal != run[0].principal)


@given(mail, st.sampled_from(Arrivals))
def test_only_collecting_takes_more_than_one_message(items, policy):
    taken = take(items, policy)
    run = plain_run(items)
    assert taken == (run if policy is Arrivals.COLLECT else run[:1])


@pytest.mark.parametrize("kind", [kind for kind in MessageKind if kind is not MessageKind.TEXT])
def test_what_is_not_plain_talk_is_never_taken_into_a_turn(kind):
    assert take(waiting(("ada", kind), ("ada", MessageKind.TEXT)), Arrivals.COLLECT) == ()


def test_a_command_between_messages_ends_the_run():
    items = waiting(
        ("ada", MessageKind.TEXT), ("ada", MessageKind.TEXT), ("ada", MessageKind.COMMAND), ("ada", MessageKind.TEXT)
    )
    assert take(items, Arrivals.COLLECT) == items[:2]
