"""A bad message is refused before the store is asked, and an accepted one is stored unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.address import Address, check_part
from holdfast.inbox.message import (
    UNFINISHED,
    Accepted,
    Arrival,
    Conflict,
    Duplicate,
    Inbound,
    Limits,
    MailboxFull,
    MessageKind,
    MessageState,
    TooMany,
    Unfit,
    accepted_message,
    check_text,
    kind_of,
    refusal,
)
from holdfast.kernel import errors
from holdfast.kernel.errors import EmptyMessage, HoldfastError, InvalidName, InvalidUnicode, MessageTooLarge
from holdfast.kernel.ids import AgentName, Instant, MailboxId, MessageId, Principal, ReplyId
from holdfast.sessions.command import Command, CommandVerb
from holdfast.turns.journal import UserSaid

MESSAGE = MessageId("msg_1")


def arrival(text: str, principal: str = "ada") -> Arrival:
    return Arrival(
        message=MESSAGE,
        address=Address(agent=AgentName("main"), channel="http", type="dm", chat="ada"),
        account="main",
        conversation="ada",
        event_id="1",
        principal=Principal(principal),
        text=text,
        kind=kind_of(text),
        reply=ReplyId("rep_1"),
        new_mailbox=MailboxId("mbx_1"),
    )


def inbound(text: str) -> Inbound:
    return Inbound(
        message=MESSAGE,
        seq=1,
        event_id="1",
        principal=Principal("ada"),
        channel="http",
        kind=kind_of(text),
        human=True,
        hop=0,
        text=text,
        state=MessageState.WAITING,
        at=Instant(1),
    )


# --- the text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["a", " a ", "😀", "a\0b", "\n\nx", "x" * 1_000, "\u0301", "👩\u200d👩\u200d👧", "\U0010ffff"]
)
def test_a_text_with_something_in_it_is_kept_unchanged(text):
    assert check_text(text, Limits()) == text


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t\r\v\f", "\0", "\0 \0", "\u200b", "\ufeff", "\u00a0", "\u2003\u2028", "\u2060", "\u200d"]
)
def test_a_text_without_a_visible_character_is_refused(text):
    with pytest.raises(EmptyMessage):
        check_text(text, Limits())


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc80 ok", "x" * 300_000 + "\ud800"])
def test_a_lone_surrogate_is_refused_by_name(text):
    with pytest.raises(InvalidUnicode, match="lone surrogate at character"):
        check_text(text, Limits())


@pytest.mark.parametrize(("text", "size"), [("x", 1), ("é", 2), ("€", 3), ("😀", 4)])
def test_size_is_counted_in_bytes_and_the_limit_itself_is_taken(text, size):
    assert check_text(text, Limits(message_bytes_max=size))
    with pytest.raises(MessageTooLarge) as refused:
        check_text(text, Limits(message_bytes_max=size - 1))
    assert refused.value.context == {"bytes": size, "limit": size - 1}


@pytest.mark.parametrize("event_id", ["", "x" * 513, "a\nb", "\ud800"])
def test_a_message_id_that_cannot_be_kept_is_refused(event_id):
    with pytest.raises(InvalidName, match="message id"):
        check_part("message id", event_id)


# --- how it is treated -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "addressed", "kind"),
    [
        ("hello", True, MessageKind.TEXT),
        ("hello", False, MessageKind.OBSERVED),
        ("/new", True, MessageKind.COMMAND),
        ("/new", False, MessageKind.OBSERVED),
        ("/stop", True, MessageKind.SIGNAL),
        ("/status", False, MessageKind.OBSERVED),
        ("/nothing", True, MessageKind.TEXT),
    ],
)
def test_how_a_message_is_treated_is_decided_when_it_arrives(text, addressed, kind):
    assert kind_of(text, addressed=addressed) is kind


@pytest.mark.parametrize("verb", CommandVerb)
def test_every_command_is_treated_as_a_command_or_a_signal(verb):
    assert kind_of(f"/{verb.value}") is (MessageKind.SIGNAL if Command(verb).is_signal else MessageKind.COMMAND)


def test_a_waiting_message_knows_the_entry_and_the_command_it_becomes():
    assert inbound("hello").said() == UserSaid(text="hello", principal="ada", message="msg_1", event_id="1")
    assert inbound("hello").command is None
    assert inbound("/undo 2").command == Command(CommandVerb.UNDO, "2")


def test_only_waiting_and_in_turn_are_unfinished():
    assert {state.value for state in UNFINISHED} == {"waiting", "in_turn"}


# --- identity ----------------------------------------------------------------------------------------------------


@given(st.text(min_size=1), st.text(min_size=1), st.text(), st.text())
def test_a_repeat_is_told_from_a_conflict_by_sender_and_text(text, other_text, principal, other_principal):
    one = arrival(text.replace("\ud800", "?"), principal)
    other = arrival(other_text, other_principal)
    same = (one.text, one.principal) == (other.text, other.principal)
    if "\0" not in principal + other_principal:  # check_part lets no such sender in
        assert (one.body_hash == other.body_hash) == same


# --- outcomes ----------------------------------------------------------------------------------------------------


def test_an_accepted_message_and_a_repeat_have_an_id():
    assert accepted_message(Accepted(MESSAGE, MailboxId("mbx_1"), 0)) == MESSAGE
    assert accepted_message(Duplicate(MESSAGE, MessageState.ANSWERED)) == MESSAGE


REFUSALS: list[tuple[Conflict | MailboxFull | TooMany, type[HoldfastError]]] = [
    (Conflict(MESSAGE), errors.IdempotencyConflict),
    (MailboxFull(3), errors.MailboxIsFull),
    (TooMany(250), errors.RateLimited),
]


@pytest.mark.parametrize(("outcome", "kind"), REFUSALS, ids=lambda value: getattr(value, "__name__", ""))
def test_each_refusal_has_its_own_error(outcome, kind):
    assert type(refusal(outcome)) is kind
    with pytest.raises(kind):
        accepted_message(outcome)


def test_a_refusal_says_how_many_wait_and_when_to_come_back():
    assert "3 messages" in str(refusal(MailboxFull(3)))
    assert "250 ms" in str(refusal(TooMany(250)))
    assert refusal(TooMany(250)).context == {"retry_after_ms": 250}


@pytest.mark.parametrize("blank", ["\u2028", "\u2029", "\u200b", "\u3000", "\x07"])
def test_a_text_that_shows_nothing_is_empty(blank):
    with pytest.raises(EmptyMessage):
        check_text(blank * 3, Limits())


def test_a_message_that_can_never_be_taken_is_an_error_with_its_reason():
    error = refusal(Unfit("message_too_large"))
    assert error.code == "invalid_input"
    assert error.context == {"reason": "message_too_large"}
