"""The promise: a long reply arrives in pieces that the platform takes, with the same words in the same order, cut
where a reader would cut them; a code block that is cut stays a code block."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.split import LIMIT_MIN, open_fence, split, utf16_length

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from(["\n", "\n\n", ". ", " ", "```", "\n```py\n", FAMILY])), max_size=60)
LENGTHS = st.sampled_from([len, utf16_length, lambda text: len(text.encode())])
LIMITS = st.integers(LIMIT_MIN, 200)


def bare(text):
    """Everything but white space and the marks of code blocks."""
    return re.sub(r"\s", "", re.sub(r"(?m)^ {0,3}(`{3,}|~{3,})[^`\n]*$", "", text))


@settings(max_examples=300)
@given(TEXTS, LIMITS, LENGTHS)
def test_every_piece_fits_and_says_something(parts, limit, length):
    for piece in split("".join(parts), limit, length):
        assert length(piece) <= limit
        assert piece.strip()


@settings(max_examples=300)
@given(st.lists(WORDS, max_size=60), LIMITS, LENGTHS)
def test_nothing_is_lost_and_nothing_is_added(words, limit, length):
    text = " ".join(words).replace("`", "'").replace("~", "-")
    assert re.sub(r"\s", "", "".join(split(text, limit, length))) == re.sub(r"\s", "", text)


@given(
    st.lists(st.from_regex(r"[a-z.]{1,20}", fullmatch=True), max_size=80), st.sampled_from([" ", "\n", "\n\n"]), LIMITS
)
def test_words_that_fit_are_never_broken(words, between, limit):
    assert " ".join(split(between.join(words), limit)).split() == words


@settings(max_examples=300)
@given(TEXTS, LIMITS)
def test_the_same_text_gives_the_same_pieces(parts, limit):
    text = "".join(parts)
    assert split(text, limit) == split(text, limit)
    if len(text) <= limit and text.strip():
        assert split(text, limit) == (text,)


@given(st.lists(st.from_regex(r"[a-z ]{0,30}", fullmatch=True), min_size=1, max_size=40), LIMITS)
def test_code_blocks_are_closed_and_opened_again(lines, limit):
    text = "see:\n```py\n" + "\n".join(lines) + "\n```\nthat is all"
    pieces = split(text, limit)
    assert all(open_fence(piece) is None for piece in pieces)
    assert bare("\n".join(pieces)) == bare(text)


def test_a_paragraph_is_the_best_place_then_a_line_then_a_sentence_then_a_word():
    first, second = "a" * 20, "b" * 20
    assert split(f"{first}\n\n{second}\n{second}", 48) == (first, f"{second}\n{second}")
    assert split(f"{first}. {first}\n{second}", 48) == (f"{first}. {first}", second)
    assert split(f"{first} {first}. {second}", 48) == (f"{first} {first}.", second)
    assert split(f"{first} {first} {second}", 48) == (f"{first} {first}", second)


def test_a_code_block_keeps_its_language_and_its_indentation():
    text = "```python\n" + "\n".join(f"    line_{n} = {n}" for n in range(6)) + "\n```"
    first, second, *_ = split(text, 64)
    assert first == "```python\n    line_0 = 0\n    line_1 = 1\n    line_2 = 2\n```"
    assert second.startswith("```python\n    line_3 = 3\n")


def test_a_code_block_is_not_begun_where_nothing_of_it_fits():
    text = "a few words before it\n```python\nvalue = 'a rather long line'\n```"
    assert split(text, 50)[0] == "a few words before it"


@pytest.mark.parametrize(
    "shown_as_one", [FAMILY, "e\u0301", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f"]
)
def test_what_is_shown_as_one_character_is_not_broken(shown_as_one):
    text = shown_as_one * 40
    for length in (len, utf16_length):
        for piece in split(text, 33, length):
            assert piece.replace(shown_as_one, "") == ""


def test_a_platform_counts_in_its_own_units():
    text = "\U0001f9ff" * 40
    assert [len(piece) for piece in split(text, 40)] == [40]
    assert [len(piece) for piece in split(text, 40, utf16_length)] == [20, 20]


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_a_text_of_nothing_has_no_pieces(text):
    assert split(text, 100) == ()


def test_an_absurd_limit_is_refused():
    with pytest.raises(ValueError, match="too small"):
        split("hello", LIMIT_MIN - 1)


def test_the_last_of_several_pieces_ends_without_blanks_and_a_single_one_is_unchanged():
    assert split("a" * 30 + " " + "b" * 10 + "  \n", 32) == ("a" * 30, "b" * 10)
    assert split("hello   ", 32) == ("hello   ",)


def test_a_flag_made_of_tags_is_never_cut():
    england = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert split("x" * 28 + england + england, 32) == ("x" * 28, england + england)
