"""Keys and lines of an encrypted folder."""

import pytest

from holdfast.kernel.errors import EncryptionKeyInvalid
from holdfast.store.encryption.key import make_key
from holdfast.store.encryption.log_lines import LineCipher, translated

TEXT = "abcdefghij0123456789" * 3
SALT, OTHER = bytes(16), bytes([1]) * 16
LINES = ['{"event": "one"}', '{"event": "two", "who": "ada"}', ""]


def cipher(salt: bytes = SALT) -> LineCipher:
    return LineCipher(make_key(TEXT, salt))


def test_one_key_serves_several_folders_with_different_keys_of_their_own():
    first, second = make_key(TEXT, SALT), make_key(TEXT, OTHER)
    derived = {key.hex() for one in (first, second) for key in (one.of_databases, one.of_log)}
    assert len(derived) == 4
    assert first.check != second.check
    assert make_key(f"  {TEXT}\n", SALT) == first


def test_a_key_is_never_shown():
    key = make_key(TEXT, SALT)
    shown = f"{key!r} {key}"
    assert not any(secret in shown for secret in (TEXT, key.of_databases.hex(), key.of_log.hex()))


@pytest.mark.parametrize("text", ["", "a" * 31, "abc" * 30, " " * 40])
def test_what_is_too_short_or_too_uniform_is_no_key(text):
    with pytest.raises(EncryptionKeyInvalid):
        make_key(text, SALT)


def test_lines_are_read_back_and_are_unreadable_to_others():
    hidden = [cipher().encrypted(line) for line in LINES]
    assert not any(line and line in told for line, told in zip(LINES, hidden, strict=True))
    assert [cipher().readable(line) for line in hidden] == LINES
    assert {cipher(OTHER).readable(line) for line in hidden} == {None}
    assert cipher().readable("a line of before") == "a line of before"


@pytest.mark.parametrize("former", [None, SALT])
@pytest.mark.parametrize("now", [None, OTHER])
def test_a_log_is_translated_once_however_often_it_is_tried(former, now):
    ciphers = [None if salt is None else cipher(salt) for salt in (former, now)]
    lines = LINES if ciphers[0] is None else [ciphers[0].encrypted(line) for line in LINES]
    half = [*list(translated(lines[:2], *ciphers)), *lines[2:]]
    whole = list(translated(half, *ciphers))
    assert [line if ciphers[1] is None else ciphers[1].readable(line) for line in whole] == LINES


def test_a_line_that_no_key_fits_is_kept():
    odd = LineCipher(make_key(TEXT, bytes([9]) * 16)).encrypted("somebody else's")
    assert list(translated([odd], cipher(), cipher(OTHER))) == [odd]
