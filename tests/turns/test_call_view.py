"""What a person is shown of a tool call means what will run, and the digest is of nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.turns.call_view import (
    ARGUMENTS_BYTES_MAX,
    HEAD_CHARS,
    SHOWN_CHARS_MAX,
    TAIL_CHARS,
    call_digest,
    full_arguments,
    is_cut,
    is_digest,
    one_line,
    short_digest,
    shown_arguments,
    spelt,
    why_unshowable,
)
from holdfast.turns.journal import ToolCall

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def call(arguments: str, name: str = "pay") -> ToolCall:
    return ToolCall(id="c", name=name, arguments=arguments)


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_both_views_mean_what_the_tool_is_given(value, ascii_only, indent):
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert json.loads(one_line(written)) == value
    assert json.loads(full_arguments(written)) == value


@given(st.text())
def test_nothing_that_cannot_be_seen_is_shown_as_it_is(text):
    assert spelt(text).isprintable()
    assert one_line(text).isprintable()
    assert full_arguments(text).replace("\n", "").isprintable()


def test_the_full_view_keeps_every_token_and_decodes_none():
    written = '{"a":1.50, "b":[1e999,{}, [ ]], "c":{"d":"x, {y}: \\"z\\"   w"},"a":-0}'
    assert full_arguments(written).splitlines() == [
        "{",
        '  "a": 1.50,',
        '  "b": [',
        "    1e999,",
        "    {},",
        "    []",
        "  ],",
        '  "c": {',
        '    "d": "x, {y}: \\"z\\"   w"',
        "  },",
        '  "a": -0',
        "}",
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('"\\u0072\\u006d -rf \\u002f"', '"rm -rf /"'),
        ('"a\\u202eb"', '"a\\u202eb"'),
        ('"a\u202eb\u00a0c\u3164d\ufe0fe"', '"a\\u202eb\\u00a0c\\u3164d\\ufe0fe"'),
        ('"\U000e0041"', '"\\udb40\\udc41"'),
        ('"two  spaces"', '"two  spaces"'),
        ('{\n\t"a" :   1\n}', '{ "a" : 1 }'),
        ('"a`||b||"', '"a\\u0060||b||"'),
    ],
    ids=[
        "needless escapes",
        "an escaped override",
        "hidden characters",
        "beyond four digits",
        "blanks in a string",
        "blanks outside",
        "the end of a code span",
    ],
)
def test_an_escape_stands_for_what_cannot_be_seen_and_for_nothing_else(written, shown):
    assert one_line(written) == shown


def test_a_long_text_is_shown_by_its_head_and_its_tail_with_what_is_left_out_counted():
    inner = "h" * 3_000 + "t" * 3_000
    shown = shown_arguments(f'"{inner}"')
    assert shown == f'"{"h" * (HEAD_CHARS - 1)} …[{6_002 - HEAD_CHARS - TAIL_CHARS} characters left out]… {"t" * 399}"'
    assert is_cut(f'"{inner}"')


def test_a_text_that_is_just_short_enough_is_shown_whole():
    whole = f'"{"x" * (SHOWN_CHARS_MAX - 2)}"'
    assert (shown_arguments(whole), is_cut(whole)) == (whole, False)
    assert is_cut(f'{whole}"')


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("{not json", "no valid JSON"),
        ('{"a": NaN}', "no valid JSON"),
        ("[" * 65 + "]" * 65, "no valid JSON"),
        ('{"path": "/tmp/a", "path": "/etc/passwd"}', "name a key twice"),
        ('{"a": "\ud800"}', "half of a surrogate pair"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"a\\udc00": 1}', "half of a surrogate pair"),
        (f'"{"x" * (ARGUMENTS_BYTES_MAX - 1)}"', "have 65537 bytes"),
        (f'"{"é" * (ARGUMENTS_BYTES_MAX // 2)}"', "have 65538 bytes"),
    ],
    ids=["no JSON", "NaN", "deep", "twice", "surrogate", "escaped", "in a key", "too long", "too many bytes"],
)
def test_what_cannot_be_shown_to_a_person_is_told_apart(arguments, why):
    assert why in (why_unshowable(call(arguments)) or "")


@pytest.mark.parametrize(
    "arguments", ["", "{}", '{"a": "\\ud83d\\ude00"}', '{"a": "\u202e"}', f'"{"x" * (ARGUMENTS_BYTES_MAX - 2)}"']
)
def test_what_can_be_shown_is_askable(arguments):
    assert why_unshowable(call(arguments)) is None


def test_a_tool_whose_name_cannot_be_shown_is_not_askable():
    assert "name of the tool" in (why_unshowable(call("{}", name="pay\u202e")) or "")
    assert "name of the tool" in (why_unshowable(call("{}", name="pay\n{}")) or "")
    assert "name of the tool" in (why_unshowable(call("{}", name="pay`")) or "")


def test_the_digest_is_of_the_salt_the_name_and_every_byte_of_the_arguments():
    known = call_digest("pay", '{"a": 1}', b"salt")
    assert known == "641fd9c0ae95c890dea23fcede7dc436286aedfb91eca0e8f2738ad20eec64dc"
    others = [("pay", '{"a":1}', b"salt"), ("say", '{"a": 1}', b"salt"), ("pay", '{"a": 1}', b"sale")]
    assert known not in [call_digest(*other) for other in others]
    assert is_digest(short_digest(known), known)
    assert len(short_digest(known)) == 14
