"""The people who may approve a tool call, the ids of approvals, and the texts about them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import ApprovalId, ReplyId
from holdfast.turns.approval import (
    ALPHABET,
    Approval,
    ApprovalAsk,
    Decision,
    Proof,
    already_text,
    approval_id,
    asked_text,
    check_proof,
    decided_in,
    decided_text,
    needs_approval,
    not_found_text,
    refused_text,
    typed_id,
)
from holdfast.turns.call_view import short_digest
from holdfast.turns.journal import ToolCall
from holdfast.turns.policy import ApprovalPolicy

ID = ApprovalId("K7M2QX")


@given(st.integers(min_value=0, max_value=2**40 - 1))
def test_an_id_is_short_has_no_lookalikes_and_survives_being_typed(chance):
    made = approval_id(chance)
    assert len(made) == 6
    assert set(made) <= set(ALPHABET)
    assert not set("0O1IL") & set(made)
    assert typed_id(f"`{made.lower()}`") == made


def test_ids_differ_with_chance():
    assert len({approval_id(n) for n in range(10_000)}) == 10_000


@pytest.mark.parametrize(
    ("tools", "dangerous", "needs"),
    [((), False, False), ((), True, True), (("pay",), False, True), (("*",), False, True)],
)
def test_which_calls_need_an_approval(tools, dangerous, needs):
    assert needs_approval(ApprovalPolicy(tools=frozenset(tools)), "pay", dangerous=dangerous) is needs


def ask(arguments: str, hint: str = "") -> ApprovalAsk:
    call = ToolCall(id="c", name="pay", arguments=arguments)
    return ApprovalAsk(ids=(ID,), call=call, reply=ReplyId("r"), wait_ms=1, hint=hint, salt=b"salt")


def test_a_question_shows_what_will_run_its_size_and_its_digest():
    asked = ask('{"amount": 3}')
    assert asked_text("main", asked, ID).splitlines() == [
        'main wants to use `pay`: `{"amount": 3}`',
        f"13 characters, digest {short_digest(asked.digest)}.",
        "Answer /approve K7M2QX or /deny K7M2QX.",
    ]


def test_a_long_question_shows_head_and_tail_says_what_is_left_out_and_names_no_digest():
    asked = ask('{"to":\n  "' + "x" * 5_000 + '", "amount": 9999}')
    text = asked_text("main", asked, ID)
    assert text.startswith('main wants to use `pay`: `{"to": "xxx')
    assert " …[3926 characters left out]… xxx" in text
    assert 'xxx", "amount": 9999}`\n5028 characters; this shows the first and the last of them.' in text
    assert "`holdfast approvals show K7M2QX` or GET /v1/approvals/K7M2QX" in text
    assert text.endswith("\nAnswer /approve K7M2QX DIGEST, with the digest that is shown there, or /deny K7M2QX.")
    assert short_digest(asked.digest) not in text, "it proves that somebody has looked at all of it"
    assert len(text) < 1_900, "one message on every platform"


def test_a_question_names_what_people_must_know_where_they_read_it():
    text = asked_text("main", ask("{}", "Mention me."), ID)
    assert text.endswith("\nAnswer /approve K7M2QX or /deny K7M2QX. Mention me.")


@pytest.mark.parametrize(
    ("typed", "cut", "proof"),
    [
        ("", False, Proof.HOLDS),
        ("", True, Proof.MISSING),
        ("0123-4567-89ab", True, Proof.HOLDS),
        ("`0123 4567 89AB`", False, Proof.HOLDS),
        ("0123456789ab" + "c" * 52, True, Proof.HOLDS),
        ("0123-4567-89ac", False, Proof.CHANGED),
        ("0123-4567", True, Proof.CHANGED),
        ("please", False, Proof.CHANGED),
    ],
    ids=["short", "cut", "named", "as typed", "whole", "another", "too few digits", "no digest"],
)
def test_a_digest_that_is_named_must_be_the_right_one_and_a_cut_question_needs_one(typed, cut, proof):
    assert check_proof(typed, "0123456789ab" + "c" * 52, cut=cut) is proof


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("/approve K7M2QX", ID),
        (" /deny `k7m2qx` far too much", ID),
        ("/approve", None),
        ("/stop K7M2QX", None),
        ("approve K7M2QX", None),
        ("say /approve K7M2QX", None),
        ("", None),
    ],
)
def test_only_a_decision_names_an_approval(text, named):
    assert decided_in(text) == named


def test_everybody_is_told_how_it_stands():
    assert decided_text(ID, "pay", Decision.APPROVED) == "Approved: pay (K7M2QX) runs once."
    assert decided_text(ID, "pay", Decision.EXPIRED) == already_text(ID, "pay", Decision.EXPIRED)
    assert [already_text(ID, "pay", decision) for decision in Decision] == [
        "K7M2QX (pay) was approved already.",
        "K7M2QX (pay) was denied already.",
        "K7M2QX (pay) ran out of time; it was not run.",
        "K7M2QX (pay) is over: its turn has ended.",
    ]
    assert not_found_text("", []) == "Say which: /approve ID or /deny ID. Nothing waits for an approval here."


def test_the_model_hears_why_a_call_was_not_run():
    denied = Approval(id=ID, tool="pay", call="c", decision=Decision.DENIED, reason="too much")
    late = Approval(id=ID, tool="pay", call="c", decision=None, is_due=True)
    assert 'a person denied it. They said: "too much".' in refused_text(denied)
    assert "nobody approved it in time" in refused_text(late)
    assert (denied.is_open, late.is_open) == (False, False)
