"""The practice model's summaries keep what looks like a fact, let corrections win, and never grow without bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.practice import (
    EARLIER,
    LINE_CHARS_MAX,
    NOTHING,
    SUMMARY_CHARS_MIN,
    extractive_summary,
    fitting,
    worth,
)
from holdfast.turns.context import ModelMessage

TASK = ModelMessage(role="system", content="Write one summary.")
TALK = "it rained for a while and then we went home"


def user(*said: str) -> list[ModelMessage]:
    return [ModelMessage(role="user", content=text) for text in said]


def summary(*said: ModelMessage, earlier: str = "") -> list[str]:
    before = [ModelMessage(role="user", content=EARLIER + earlier, data="summary")] if earlier else []
    return extractive_summary([TASK, *before, *said]).splitlines()


@pytest.mark.parametrize(
    "said",
    [
        "the door code is 48213",
        "we decided on the blue one",
        "she lives next to Velora",
        "I never eat fish",
        "the lease ends on 6 November 2037",
        "please remember the milk",
    ],
)
def test_what_looks_like_a_fact_outlives_talk(said):
    assert worth(said) > worth(TALK)
    talk = user(*(f"{TALK} {'so ' * n}".strip() for n in range(60)))
    assert f"- {said}" in summary(*user(said), *talk)


def test_only_the_sentences_that_matter_are_kept_of_a_message():
    assert summary(*user(f"{TALK}. The door code is 48213. {TALK}, again.")) == ["- The door code is 48213"]


def test_the_earlier_summary_is_carried_on_and_the_newest_stands_last():
    assert summary(*user("my dog is Rex"), earlier="- my cat is Byron") == ["- my cat is Byron", "- my dog is Rex"]


def test_what_is_said_again_is_the_newest_and_stands_once():
    lines = summary(*user("my dog is Rex", "my cat is Byron"), earlier="- my cat is Byron\n- I like tea")
    assert lines == ["- I like tea", "- my dog is Rex", "- my cat is Byron"]


@pytest.mark.parametrize(
    ("first", "correction"),
    [
        ("the budget for Velora is 41250 euros", "Correction: the budget for Velora is 52300 euros"),
        ("the meeting with Velora is on 3 May 2031", "Actually, the meeting with Velora moved to 9 May 2031"),
        ("the flat of Velora is in Bonn", "I was wrong about the flat of Velora, it is in Essen"),
        ("my cat is grey and old", "Actually my cat is old and black"),
    ],
)
def test_a_correction_takes_the_place_of_what_it_corrects(first, correction):
    others = [
        "the budget for Tavol is 30000 euros",
        "the meeting with Tavol is on 7 June 2031",
        "the flat of Tavol is in Ulm",
    ]
    wanted = [f"- {text}" for text in [*others, correction]]
    assert summary(*user(first, *others, correction)) == wanted
    assert summary(*user(correction), earlier="\n".join(f"- {text}" for text in [first, *others])) == wanted


def test_a_correction_of_what_is_gone_takes_nothing_else_away():
    lines = summary(*user("the budget for Tavol is 30000 euros", "Correction: the budget for Velora is 52300 euros"))
    assert lines == ["- the budget for Tavol is 30000 euros", "- Correction: the budget for Velora is 52300 euros"]


def test_of_the_assistants_own_words_only_promises_are_kept_and_marked_as_its():
    answer = ModelMessage(role="assistant", content="That is nice. I will send you the report. My cat is blue.")
    assert summary(answer) == ["- assistant: I will send you the report"]


def test_results_of_tools_are_kept():
    assert summary(ModelMessage(role="tool", content="order 48213 is on its way")) == ["- order 48213 is on its way"]


def test_without_anything_said_it_says_so():
    assert extractive_summary([TASK]) == extractive_summary([]) == NOTHING


def test_a_full_summary_drops_the_least_worthy_and_of_equals_the_oldest():
    assert fitting(["- aaaa", "- code 123", "- bbbb", "- cccc"], 20) == ["- code 123", "- cccc"]


lines = st.lists(
    st.sampled_from([TALK, "my cat is Byron", "code 48213", "Actually no", "x" * 500]) | st.text(), max_size=10
)


@given(lines, lines)
def test_a_summary_is_bounded_by_what_it_stands_for(earlier, said):
    shown = [TASK, ModelMessage(role="system", content=EARLIER + "\n".join(earlier)), *user(*said)]
    text = extractive_summary(shown)
    most = max(SUMMARY_CHARS_MIN, len("\n".join(earlier)), sum(len(one.content) for one in shown) // 5)
    assert len(text) <= max(most, len(NOTHING))
    assert text == extractive_summary(shown)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "Actually my cat. " * 15_000,
        "my " * 85_000,
        ". " * 128_000,
        "Aa " * 85_000,
        "1" * 256_000,
        "no longer " * 25_000,
    ],
    ids=["corrections", "my", "stops", "names", "digits", "no longer"],
)
def test_the_largest_message_is_summarised_in_no_time(text):
    """The model runs on the event loop: a slow summary of one session would stop everybody's turns."""
    assert all(len(line) <= LINE_CHARS_MAX + 2 for line in summary(*user(text)))
