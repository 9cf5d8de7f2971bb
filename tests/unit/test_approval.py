"""Who may approve a tool call, under which id, and what everybody is told about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.approval import (
    ALPHABET,
    ARGUMENTS_CHARS_MAX,
    Approval,
    Decision,
    already_text,
    approval_id,
    asked_text,
    decided_in,
    decided_text,
    needs_approval,
    not_found_text,
    refused_text,
    typed_id,
)
from holdfast.core.ids import ApprovalId
from holdfast.core.journal import ToolCall
from holdfast.core.policy import ApprovalPolicy

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


def test_a_question_shows_what_is_to_be_done_and_never_a_flood_of_it():
    text = asked_text("main", ToolCall(id="c", name="pay", arguments='{"to":\n  "' + "x" * 5_000 + '"}'), ID)
    assert text.startswith('main wants to use pay: {"to": "xxx')
    assert "… (5010 characters)" in text
    assert text.endswith("\nAnswer /approve K7M2QX or /deny K7M2QX.")
    assert len(text) < ARGUMENTS_CHARS_MAX + 150


def test_a_question_names_what_people_must_know_where_they_read_it():
    text = asked_text("main", ToolCall(id="c", name="pay", arguments="{}"), ID, "Mention me.")
    assert text.endswith("\nAnswer /approve K7M2QX or /deny K7M2QX. Mention me.")


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
