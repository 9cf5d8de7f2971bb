"""The promise: a long reply arrives in pieces that the platform takes, with the same words in the same order, cut
where a reader would cut them; a code block that is cut stays a code block."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.outbox.splitting import LIMIT_MIN, open_fence, split, utf16_length

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


# --- exact cases, each at the edge of a rule -------------------------------------------------------


def code_of(pieces):
    """The lines of code in the pieces, without their marks."""
    return [line for piece in pieces for line in piece.splitlines() if not line.startswith(("```", "~~~"))]


@pytest.mark.parametrize("mark", ["```", "~~~~~", "`" * 15, "`" * 16, "`" * 31, "`" * 40])
@pytest.mark.parametrize("limit", [32, 40, 57])
def test_code_of_any_length_fits_closes_and_loses_nothing(mark, limit):
    for count in range(1, 30):
        lines = [f"  line{n:02d}" for n in range(count)]
        pieces = split(f"{mark}py\n" + "\n".join(lines) + f"\n{mark}", limit)
        assert all(len(piece) <= limit and piece.strip() for piece in pieces)
        if 2 * len(mark) + 12 <= limit:
            assert all(open_fence(piece) is None for piece in pieces)
            assert code_of(pieces) == lines


def test_a_line_of_code_that_is_cut_keeps_its_spaces():
    line = " ".join(f"w{n:02d}" for n in range(30))
    assert "".join(code_of(split(f"```\n{line}\n```", 40))) == line


def test_a_block_that_begins_at_the_end_of_a_piece_loses_nothing_before_it():
    """The piece before it goes on with another block, whose first line was written again."""
    for filler in range(1, 60):
        words = [f"a{n:02d}" for n in range(20)] + ["x" * filler, "after"]
        text = "```py\n" + "\n".join(words[:20]) + f"\n```\n{words[20]}\n```js\nafter\n```"
        pieces = split(text, 64)
        assert all(len(piece) <= 64 for piece in pieces)
        said = "".join(line for line in code_of(pieces))
        assert said == "".join(words)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("````\n```\ncode", "````"),  # a shorter mark closes nothing
        ("```\n~~~\ncode", "```"),  # nor does another one
        ("```\n```py\ncode", "```"),  # nor one with a word behind it
        ("```\ncode\n````", None),
        ("~~~\ncode\n~~~", None),
        ("```\na\n```\n~~~\nb", "~~~"),
    ],
)
def test_a_block_is_closed_by_its_own_mark_only(text, mark):
    found = open_fence(text)
    assert (found.mark if found else None) == mark


def test_a_word_that_ends_where_a_piece_does_stays_whole():
    first = "a" * 15 + " " + "b" * 16
    assert split(f"{first} {'c' * 20}", 32) == (first, "c" * 20)


def test_a_short_beginning_is_not_a_piece_of_its_own():
    first = split("Hi.\n\n" + "word " * 30, 60)[0]
    assert first.startswith("Hi.\n\nword")
    assert len(first) > 50


def test_an_indented_line_keeps_its_indentation_at_the_start_of_a_piece():
    first = "x" * 30
    assert split(f"{first}\n\n    - an item", 32) == (first, "    - an item")


def test_white_space_before_a_long_word_makes_no_empty_piece():
    for blank in ("\n" * 20, " " * 20, "\n \n" * 7):
        pieces = split(blank + "x" * 50, 32)
        assert all(piece.strip() for piece in pieces)
        assert "".join("".join(pieces).split()) == "x" * 50


def test_one_character_that_is_longer_than_a_piece_is_broken():
    text = "a" + "\u0301" * 100
    assert "".join(split(text, 32)) == text


@pytest.mark.parametrize(
    "shown",
    [
        "\U0001f44d\U0001f3fd",  # a thumb with its colour
        "\U0001f3f4\U000e0067\U000e0062\U000e007f",  # a flag made of tags
        "\u0915\u093f",  # a letter and the vowel sign around it
        "e\u0301",
        "\U0001f1e9\U0001f1ea",
        FAMILY,
    ],
    ids=ascii,
)
def test_what_is_shown_as_one_character_is_not_cut_wherever_a_piece_ends(shown):
    for filler in range(20, 33):
        text = "x" * filler + shown * 3 + "y" * 40
        pieces = split(text, 32)
        assert "".join(pieces) == text
        for piece in pieces[:-1]:
            assert piece.lstrip("x").rstrip("y").replace(shown, "") == ""


def test_a_long_first_line_of_a_block_is_not_written_again():
    code = "\n".join(f"line{n:02d}" for n in range(20))
    pieces = split(f"```averyverylongname\n{code}\n```", 60)
    assert pieces[0].startswith("```averyverylongname\n")
    assert all(piece.startswith("```\nline") for piece in pieces[1:])


def test_a_character_outside_the_basic_plane_counts_twice():
    assert [utf16_length(char) for char in ("a", "\uffff", "\U00010000")] == [1, 1, 2]
