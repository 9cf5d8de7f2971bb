"""Access is denied by default and granted by immutable ids only; a pairing code grants nothing by itself.

Rules: control 6.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.access import (
    CODE_ALPHABET,
    Knock,
    PairingAsk,
    SenderAccess,
    admitted_text,
    check_allowed,
    check_allowed_chat,
    decide,
    make_code,
    notice_text,
    read_code,
    spelt,
)
from holdfast.kernel.errors import AllowlistNotImmutable, InvalidName, PairingNotFound
from holdfast.kernel.ids import AgentName, MailboxId, Principal, ReplyId
from holdfast.turns.policy import AccessPolicy, Door

BOB = Principal("telegram:7")
doors = st.sampled_from(Door)


def knock(**more):
    return Knock(**{"principal": BOB, "channel": "telegram", "chat": "7", **more})


def group(**more):
    return knock(chat="-100", chat_type="group", **more)


@pytest.mark.parametrize(
    ("who", "policy", "admitted", "expected"),
    [
        (knock(), AccessPolicy(), False, SenderAccess.PAIR),
        (knock(), AccessPolicy(), True, SenderAccess.ADMIT),
        (knock(), AccessPolicy(allow=frozenset({BOB})), False, SenderAccess.ADMIT),
        (knock(), AccessPolicy(allow=frozenset({"telegram:70", "discord:7"})), False, SenderAccess.PAIR),
        (knock(), AccessPolicy(door=Door.CLOSED), False, SenderAccess.REFUSE),
        (knock(), AccessPolicy(door=Door.CLOSED), True, SenderAccess.ADMIT),
        (knock(), AccessPolicy(door=Door.OPEN), False, SenderAccess.ADMIT),
        (knock(human=False), AccessPolicy(), False, SenderAccess.REFUSE),
        (knock(human=False), AccessPolicy(allow=frozenset({BOB})), False, SenderAccess.ADMIT),
        (group(), AccessPolicy(), False, SenderAccess.REFUSE),
        (group(), AccessPolicy(door=Door.OPEN), False, SenderAccess.REFUSE),
        (group(), AccessPolicy(), True, SenderAccess.ADMIT),
        (group(), AccessPolicy(allow=frozenset({BOB})), False, SenderAccess.ADMIT),
        (group(), AccessPolicy(allow_chats=frozenset({"telegram:-100"})), False, SenderAccess.ADMIT),
        (group(), AccessPolicy(allow_chats=frozenset({"discord:-100", "telegram:-1001"})), False, SenderAccess.REFUSE),
        (group(), AccessPolicy(group_door=Door.PAIR), False, SenderAccess.PAIR),
        (group(addressed=False), AccessPolicy(group_door=Door.PAIR), False, SenderAccess.REFUSE),
        (group(), AccessPolicy(group_door=Door.OPEN), False, SenderAccess.ADMIT),
        (knock(chat="-100"), AccessPolicy(allow_chats=frozenset({"telegram:-100"})), False, SenderAccess.PAIR),
    ],
)
def test_a_sender_is_met_as_the_policy_says(who, policy, admitted, expected):
    assert decide(who, policy, admitted=admitted) is expected


@given(doors, doors, st.booleans(), st.booleans(), st.sampled_from(["dm", "group", "channel"]))
def test_every_admitted_sender_is_allowed_or_the_door_is_open(door, group_door, human, addressed, kind):
    policy = AccessPolicy(door=door, group_door=group_door, allow=frozenset({"telegram:1"}))
    met = decide(knock(chat_type=kind, human=human, addressed=addressed), policy, admitted=False)
    assert (met is SenderAccess.ADMIT) == ((door if kind == "dm" else group_door) is Door.OPEN)


@pytest.mark.parametrize(
    "entry", ["telegram:1", "telegram:-1001", "discord:80351110224678912", "slack:T1.U2", "slack:E1.W2", "matrix:x-1"]
)
def test_an_immutable_id_is_kept_as_it_is(entry):
    assert check_allowed(entry) == entry


@pytest.mark.parametrize(
    "entry",
    [
        *(
            "@bob",
            "bob",
            "*",
            "",
            ":",
            ":1",
            "telegram:",
            "telegram:@bob",
            "telegram:bob",
            "telegram:0",
            "telegram:1\n",
        ),
        *(
            "discord:bob#1234",
            "discord:bob",
            "slack:U2",
            "slack:bob",
            "slack:t1.u2",
            "matrix:@bob",
            "matrix:a b",
            "x:*",
        ),
    ],
)
def test_what_its_owner_can_change_is_refused(entry):
    with pytest.raises(AllowlistNotImmutable) as caught:
        check_allowed(entry)
    assert repr(entry) in str(caught.value)


def test_a_chat_is_named_by_its_id_too():
    assert check_allowed_chat("telegram:-1001") == "telegram:-1001"
    assert check_allowed_chat("slack:C012") == "slack:C012"
    for entry in ("telegram:@ours", "discord:general", "slack:#general", "telegram"):
        with pytest.raises(AllowlistNotImmutable):
            check_allowed_chat(entry)


@given(st.integers(0, 2**64 - 1))
def test_a_code_is_read_however_it_is_typed(chance):
    code = make_code(chance)
    assert len(code) == 8
    assert set(code) <= set(CODE_ALPHABET)
    for typed in (code, spelt(code), spelt(code).lower(), f" {code[:3]} {code[3:]} "):
        assert read_code(typed) == code


def test_no_two_characters_of_a_code_look_alike():
    assert not set("01ILOU") & set(CODE_ALPHABET)


@pytest.mark.parametrize("text", ["", "7K2M", "7K2MPQ9X2", "7K2MPQ9O", "7K2M_PQ9X", "\u0667K2MPQ9X", "7K2MPQ9X; rm"])
def test_what_is_no_code_is_refused(text):
    with pytest.raises(PairingNotFound):
        read_code(text)


def test_a_stranger_is_told_what_to_do_and_nothing_else():
    assert notice_text("7K2MPQ9X", "fern").endswith("holdfast pair 7K2M-PQ9X")
    assert "fern" in admitted_text("fern")


@pytest.mark.parametrize("principal", ["", "a\nb", "x" * 2_000])
def test_a_request_names_its_sender(principal):
    with pytest.raises(InvalidName, match="principal"):
        PairingAsk(
            agent=AgentName("fern"),
            channel="telegram",
            principal=Principal(principal),
            address="agent:fern:telegram:dm:7",
            code="7K2MPQ9X",
            reply=ReplyId("rep_1"),
            new_mailbox=MailboxId("box_1"),
        )
