"""No two places share an address, and every address has exactly one spelling.

Rules: D38, control 7.
"""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.address import PART_CHARS_MAX, Address, agent_name, check_part, parse
from holdfast.kernel.errors import InvalidAddress, InvalidName
from holdfast.kernel.ids import AgentName

names = (
    st.text("aZ09", min_size=1, max_size=1)
    .flatmap(lambda head: st.text("aZ09._-", max_size=63).map(head.__add__))
    .filter(lambda name: not name.endswith("."))
)
parts = st.text(
    st.one_of(st.sampled_from(":%/ #é😀."), st.characters(exclude_categories=["Cs", "Cc"])), min_size=1, max_size=30
)
addresses = st.builds(
    Address,
    agent=names.map(AgentName),
    channel=names,
    type=names,
    chat=parts,
    thread=st.none() | parts,
    user=st.none() | parts,
)


def address(chat: str, thread: str | None = None, user: str | None = None) -> Address:
    return Address(agent=AgentName("main"), channel="http", type="dm", chat=chat, thread=thread, user=user)


@given(addresses)
def test_an_address_is_read_back_as_it_was_written(one):
    assert parse(str(one)) == one


@given(addresses, addresses)
def test_two_different_addresses_are_never_spelt_alike(one, other):
    assert (one == other) == (str(one) == str(other))


@given(parts, parts, parts)
def test_moving_a_colon_between_parts_makes_another_address(first, second, third):
    shapes = [
        address(f"{first}:{second}:{third}"),
        address(f"{first}:{second}", third),
        address(first, f"{second}:{third}"),
        address(first, second, third),
        address(first, None, f"{second}:{third}"),
    ]
    assert len({str(shape) for shape in shapes}) == len(shapes)


@pytest.mark.parametrize(
    ("one", "spelling"),
    [
        (address("ada"), "agent:main:http:dm:ada"),
        (address("a:b"), "agent:main:http:dm:a%3Ab"),
        (address("a", "b"), "agent:main:http:dm:a:b"),
        (address("a", None, "u"), "agent:main:http:dm:a::u"),
        (address("a", "b", "u"), "agent:main:http:dm:a:b:u"),
        (address("50%"), "agent:main:http:dm:50%25"),
        (address("é"), "agent:main:http:dm:%C3%A9"),
    ],
)
def test_an_address_is_spelt_as_documented(one, spelling):
    assert str(one) == spelling
    assert parse(spelling) == one


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent",
        "agent:main:http:dm",
        "agent:main:http:dm:a:b:c:d",
        "person:main:http:dm:a",
        "agent:main:http:dm:",
        "agent::http:dm:a",
        "agent:main:http:dm:a:",
        "agent:main:http:dm:a::",
        "agent:main:http:dm:a b",
        "agent:main:http:dm:é",
        "agent:main:http:dm:%c3%a9",
        "agent:main:http:dm:%61",
        "agent:main:http:dm:%FF",
        "agent:main:http:dm:%",
        "agent:main:http:dm:%0A",
        "agent:m%61in:http:dm:a",
        "agent:main:http:dm:a\n",
        "AGENT:main:http:dm:a",
        "agent:main:http:dm:\ud800",
        "agent:main:http:dm:%ED%A0%80",
    ],
)
def test_every_other_spelling_is_refused(text):
    with pytest.raises(InvalidAddress):
        parse(text)


@given(addresses, st.data())
def test_a_spelling_with_one_character_escaped_or_changed_is_never_the_same_address(one, data):
    spelling = str(one)
    position = data.draw(st.integers(0, len(spelling) - 1))
    changed = f"{spelling[:position]}%{ord(spelling[position]):02x}{spelling[position + 1 :]}"
    with suppress(InvalidAddress):
        assert parse(changed) != one  # an escape that is escaped: the address of another chat


@pytest.mark.parametrize("name", ["main", "a", "0", "A.b_c-d", "x" * 64, "console", "com10", "a.con"])
def test_a_name_is_kept_as_it_is(name):
    assert agent_name(name) == name


@pytest.mark.parametrize("name", ["", ".a", "-a", "_a", "a b", "a/b", "a:b", "é", "x" * 65, "a\n", "\ud800"])
def test_a_name_that_could_be_mistaken_is_refused(name):
    with pytest.raises(InvalidName):
        agent_name(name)


@pytest.mark.parametrize("name", ["../x", "..", "CON", "con", "Nul.txt", "com1", "LPT9.log", "aux.", "a.", "a.."])
def test_a_name_that_some_system_reads_as_another_file_is_refused(name):
    with pytest.raises(InvalidName):
        agent_name(name)


@pytest.mark.parametrize("part", ["", "x" * (PART_CHARS_MAX + 1), "a\0", "a\n", "\x7f", "\ud800", "a\udfff"])
def test_an_identifier_from_outside_is_never_empty_huge_or_unprintable(part):
    with pytest.raises(InvalidName):
        check_part("chat", part)


def test_the_longest_identifier_is_taken():
    assert check_part("chat", "x" * PART_CHARS_MAX) == "x" * PART_CHARS_MAX


def test_an_address_cannot_be_made_with_a_bad_part():
    with pytest.raises(InvalidName):
        address("a", thread="")
    with pytest.raises(InvalidName):
        Address(agent=AgentName("no:name"), channel="http", type="dm", chat="a")
