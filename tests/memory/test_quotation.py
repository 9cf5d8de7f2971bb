"""No word of a forgotten person survives in an answer to others, in any case, form or script. Common words, and words
that others said too, are not quotations.
"""

# ruff: noqa: RUF001 - scripts whose letters look alike are what is tested

import pytest

from holdfast.memory.quotation import Terms, made_texts, names_in, terms_in
from holdfast.turns.journal import AssistantSaid, ToolCall, ToolReturned, UserSaid


def terms(*said):
    made = Terms()
    for text in said:
        made.add_said(text)
    return made


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("my cat Byron", "BYRON it is"),
        ("call 4711", "the number is (4711)."),
        ("I am at 7b", "in 7b"),
        ("marmalade", "two marmalades"),
        ("marmalade", "zq_marmalade_x"),
        ("Straße", "STRASSE"),
        ("Zoë", "zoe\u0308"),
        ("ｍａｒｍａｌａｄｅ", "marmalade"),
        ("我的猫叫果酱", "那是果酱吗"),
        ("マーマレード", "彼のマーマレードです"),
        ("마멀레이드를", "마멀레이드가"),
        ("मेरी बिल्ली मुरब्बा", "यह मुरब्बा है"),
        ("แมวชื่อส้ม", "ส้มมาแล้ว"),
        ("кот Васька", "ВАСЬКА"),
    ],
)
def test_a_word_of_theirs_is_found(said, answer):
    assert terms(said).quoted_in([answer], ())


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("my cat Byron", "a category of its own"),
        ("what is this about", "this is about something"),
        ("marmalade", "jam"),
        ("go up", "go up"),
        ("", "anything"),
    ],
)
def test_words_that_say_nothing_are_no_quotation(said, answer):
    assert not terms(said).quoted_in([answer], ())


def test_a_word_that_somebody_else_said_is_no_quotation_and_every_other_one_still_is():
    made = terms("Oslo in May with Byron")
    others = made.known_in("is it Oslo?")
    assert others == {"oslo"}
    assert not made.quoted_in(["Oslo, yes"], others)
    assert made.quoted_in(["Oslo, with Byron"], others)


def test_part_of_a_word_that_somebody_else_said_does_not_make_it_theirs():
    assert terms("marmalade").known_in("marmalades") == set()


def test_of_what_the_agent_told_them_names_and_numbers_count_and_not_its_phrases():
    assert names_in("Hello! Your flight is LH123 to Oslo. Have fun") == {"lh123", "oslo"}
    made = Terms()
    made.add_answered(AssistantSaid(text="Sure, the gate is B7, says Hamlet."))
    assert made.quoted_in(["Hamlet is here"], ())
    assert not made.quoted_in(["sure, the gate"], ())
    assert not made.quoted_in(["Hamlet is here"], (), earlier={"hamlet"})


def test_what_a_tool_returned_to_them_counts_whole():
    made = Terms()
    made.add_answered(ToolReturned(call="c", name="look", text="diagnosis: lupus"))
    assert made.quoted_in(["it is lupus"], ())
    assert not made.quoted_in(["it is lupus"], {"lupus"})


def test_a_term_that_they_said_counts_though_the_agent_had_said_it_before():
    assert terms("Byron").quoted_in(["Byron"], (), earlier={"byron"})


def test_texts_within_arguments_are_read_without_their_escapes():
    call = ToolCall(id="c", name="t", arguments='{"a": ["x\\nByron", {"Zo\\u00eb": 1}]}')
    texts = made_texts(AssistantSaid(text="", calls=(call,)))
    assert terms("Byron").quoted_in(texts, ())
    assert terms("Zoë").quoted_in(texts, ())
    assert made_texts(AssistantSaid(text="", calls=(ToolCall(id="c", name="t", arguments="{broken"),)))


def test_how_a_message_between_agents_begins_is_no_part_of_it():
    assert made_texts(UserSaid(text="[a message from the agent moss]\nhi", principal="agent:moss")) == ["hi"]
    assert terms_in("the and of") == set()
