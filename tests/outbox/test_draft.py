"""The visible part of an unfinished reply fits the platform, is marked as unfinished, and is updated at an agreed pace.
A draft that another claim may still write to is not written to before that write has landed.
"""

import pytest

from holdfast.kernel.ids import Instant
from holdfast.outbox.draft import (
    FIRST_AFTER_CHARS,
    FIRST_AFTER_MS,
    HOLD_MS,
    MARK,
    QUIET_MS,
    WRITE_WAIT_MS,
    drafted,
    first_due,
    may_write,
)
from holdfast.outbox.splitting import split, utf16_length


@pytest.mark.parametrize("text", ["", "  ", "\n\n \t"])
def test_of_nothing_nothing_is_shown(text):
    assert drafted(text, 100) == ""


def test_an_unfinished_text_ends_with_a_mark():
    assert drafted("Once upon a ", 100) == f"Once upon a{MARK}"


@pytest.mark.parametrize("limit", [40, 100, 2_000])
@pytest.mark.parametrize("length", [len, utf16_length])
def test_what_is_shown_fits_and_is_the_beginning_of_the_text(limit, length):
    text = "".join(f"w{n} 😀 " for n in range(500))
    for end in range(1, len(text), 37):
        shown = drafted(text[:end], limit, length)
        assert length(shown) <= limit
        assert text.startswith(shown.removesuffix(MARK))


def test_only_the_first_piece_is_shown_and_it_stands_still_when_it_is_full():
    text = "".join(f"word{n} " for n in range(200))
    full = drafted(text[:300], 100)
    assert drafted(text, 100) == full
    assert split(text, 100)[0].startswith(full.removesuffix(MARK))


def test_a_text_is_shown_after_a_while_or_as_soon_as_there_is_enough_of_it():
    assert first_due(Instant(1_000), 1) == 1_000 + FIRST_AFTER_MS
    assert first_due(Instant(1_000), FIRST_AFTER_CHARS) == 1_000


def test_a_request_begins_only_when_it_is_over_and_quiet_before_the_hold_is():
    longest = WRITE_WAIT_MS + QUIET_MS
    assert longest < HOLD_MS
    assert may_write(Instant(longest), Instant(0))
    assert not may_write(Instant(longest - 1), Instant(0))
