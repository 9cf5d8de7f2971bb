"""Ids sort by the time they were made, never collide, and can be read aloud."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import Instant
from holdfast.kernel.ports import ID_ALPHABET, ID_RANDOM_BITS, make_id

instants = st.integers(0, (1 << 45) - 1).map(Instant)
chances = st.integers(0, (1 << ID_RANDOM_BITS) - 1)


@given(instants, chances, instants, chances)
def test_two_ids_are_equal_only_when_time_and_chance_are(now, chance, later, other):
    assert (make_id("msg", now, chance) == make_id("msg", later, other)) == ((now, chance) == (later, other))


@given(instants, chances, instants, chances)
def test_ids_sort_by_time(now, chance, later, other):
    if now < later:
        assert make_id("msg", now, chance) < make_id("msg", later, other)


@given(instants, st.integers(0))
def test_an_id_has_its_prefix_and_25_characters_that_are_not_confused(now, chance):
    prefix, _, digits = make_id("ses", now, chance).partition("_")
    assert (prefix, len(digits)) == ("ses", 25)
    assert set(digits) <= set(ID_ALPHABET)


def test_only_the_low_80_bits_of_chance_are_used_and_each_of_them():
    assert make_id("op", Instant(2), 5) == make_id("op", Instant(2), 5 | (1 << ID_RANDOM_BITS))
    chances = [0, *(1 << bit for bit in range(ID_RANDOM_BITS))]
    assert len({make_id("op", Instant(2), chance) for chance in chances}) == len(chances)


def test_the_alphabet_leaves_out_what_looks_alike():
    assert len(set(ID_ALPHABET)) == 32
    assert not set("ilou") & set(ID_ALPHABET)
    assert list(ID_ALPHABET) == sorted(ID_ALPHABET)
