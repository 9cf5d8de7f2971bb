"""The promise: forms of a word are one word, in any script, and any string at all can be cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.dates import DAY_MS, civil, moment
from holdfast.kernel.ids import Instant
from holdfast.providers.local.synonyms import SYNONYMS
from holdfast.providers.local.tokenizer import (
    IRREGULAR,
    WORD_CHARS_MAX,
    Days,
    days_asked,
    stem,
    stems,
    tells_time,
    words,
)

NOW = Instant(1_700_000_000_000)  # 14 November 2023

SAME = [
    "caress caresses",
    "pony ponies",
    "agree agreed agreeing",
    "hop hopped hopping hops",
    "hope hoped hoping",
    "relate related relating relational",
    "go goes went gone going",
    "buy bought buying",
    "child children",
    "paint painted painting paints",
    "adopt adoption adopted",
    "happy happiness",
    "run ran running",
]


@pytest.mark.parametrize("group", SAME)
def test_forms_of_a_word_have_one_stem(group):
    assert len({stem(word) for word in group.split()}) == 1


# From the tables of Porter's paper.
PORTER = """
motoring motor; sing sing; conflated conflat; falling fall; hissing hiss; filing file; sky sky; digitizer digit;
conditional condit; hopefulness hope; electrical electr; goodness good; revival reviv; replacement replac;
adoption adopt; communism commun; activate activ; probate probat; rate rate; cease ceas; controlling control; roll roll;
feed feed; agreed agre; tree tree
"""


@pytest.mark.parametrize("pair", PORTER.split(";"))
def test_stems_are_those_of_the_paper(pair):
    word, expected = pair.split()
    assert stem(word) == expected


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyzé9", max_size=20))
def test_every_word_has_a_stem(word):
    assert bool(stem(word)) == bool(word)


def test_an_irregular_form_belongs_to_one_word():
    assert not set(IRREGULAR) & set(IRREGULAR.values())


@given(st.text())
def test_any_text_can_be_cut(text):
    for word in words(text):
        assert word
        assert len(word) <= WORD_CHARS_MAX
        assert " " not in word
        assert '"' not in word
        word.encode()  # no lone surrogate reaches the index


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Ada's café, Straße", ["ada", "cafe", "strasse"]),
        ("don\u2019t can't", ["dont", "cant"]),
        ("日本語", ["日本", "本語"]),
        ("犬", ["犬"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("iPhone15と猫が", ["iphone15", "と猫", "猫が"]),
        ("\0 \ud800 -- _", []),
    ],
)
def test_words_are_cut_the_same_way_everywhere(text, cut):
    assert list(words(text)) == cut


def test_common_words_say_nothing():
    assert stems(words("what is it that you have been doing")) == []


def test_the_synonyms_of_a_word_are_those_of_its_own_group():
    assert stem("code") in SYNONYMS[stem("password")]
    assert stem("street") not in SYNONYMS[stem("password")]


def test_synonyms_are_mutual_and_no_word_is_its_own():
    for word, others in SYNONYMS.items():
        assert word not in others
        assert all(word in SYNONYMS[other] for other in others)


# --- dates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "date"),
    [(0, (1970, 1, 1)), (NOW, (2023, 11, 14)), (951_782_400_000, (2000, 2, 29)), (-1, (1969, 12, 31))],
)
def test_an_instant_is_a_day_of_the_calendar(at, date):
    assert civil(at) == date


@pytest.mark.parametrize(
    ("at", "told"),
    [(0, "1970-01-01 00:00 UTC"), (NOW, "2023-11-14 22:13 UTC"), (951_868_740_000, "2000-02-29 23:59 UTC")],
)
def test_an_instant_is_told_to_the_minute(at, told):
    assert moment(at) == told


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("what happened in May 2023", Days(year=2023, month=5)),
        ("what happened in 2022", Days(year=2022)),
        ("where was she on 7 May", Days(month=5, day=7)),
        ("where was she on May 7th, 2023", Days(year=2023, month=5, day=7)),
        ("where was she in june", Days(month=6)),
        ("what may she do", None),
        ("what did I say yesterday", Days(since=Instant(NOW - NOW % DAY_MS - DAY_MS))),
        ("what did I say last week", Days(since=Instant(NOW - NOW % DAY_MS - 14 * DAY_MS))),
        ("what about week four", None),
        ("may 7 be the day", Days(month=5, day=7)),
        ("June was dry", Days(month=6)),
        ("what was it on 40 june", Days(month=6)),
        ("call extension 4711", None),
        ("who came in \u0662\u0660\u0662\u0663", None),
        ("nothing", None),
    ],
)
def test_the_days_of_a_question_are_understood(question, days):
    assert days_asked(list(words(question)), NOW) == days


def test_a_named_day_reaches_a_week_further():
    day = Days(year=2023, month=11, day=10)
    held = [day.holds(Instant(NOW + n * DAY_MS)) for n in (-5, -4, 0, 3, 4)]
    assert held == [False, True, True, True, False]


def test_a_month_holds_all_its_days_in_any_year():
    assert Days(month=11).holds(NOW)
    assert not Days(month=10).holds(NOW)
    assert Days(since=NOW).holds(NOW)
    assert not Days(since=NOW).holds(Instant(NOW - 1))


def test_a_text_that_tells_a_time_is_known():
    assert tells_time(["we", "met", "yesterday"])
    assert tells_time(["in", "2019"])
    assert tells_time(["in", "november"])
    assert not tells_time(["i", "may", "come"])


def test_y_is_a_consonant_behind_a_vowel():
    assert stem("greyness") == "grey"
