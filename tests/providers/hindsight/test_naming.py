"""Different chats never share a bank unless the template says so, and every bank is one that the server takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.memory.delivery import NamingInputs
from holdfast.providers.hindsight.naming import BankTemplate, bank_of

TEMPLATES = ["{agent}-{user}", "{agent}{user}", "{user}2{agent}", "{user}x{agent}", "a:{user}", "{session}--{user}"]
texts = st.text(max_size=80)


def inputs(agent="main", user="ada", session="s_1", address="agent:main:telegram:dm:4%2F2"):
    return NamingInputs(agent=AgentName(agent), session=SessionId(session), principal=Principal(user), address=address)


@given(st.sampled_from(TEMPLATES), st.tuples(texts, texts), st.tuples(texts, texts))
def test_different_values_never_make_equal_banks(template, one, two):
    made = [BankTemplate(template).bank(inputs(agent=a, user=b, session=a)) for a, b in (one, two)]
    used = [(a if "agent" in template or "session" in template else "", b) for a, b in (one, two)]
    assert (made[0] == made[1]) == (used[0] == used[1])


@given(st.sampled_from(TEMPLATES), st.text(max_size=400))
def test_a_bank_is_within_the_servers_limits_and_read_back_from_its_place(template, user):
    place = BankTemplate(template).place(inputs(user=user))
    bank = bank_of(place)
    assert place == f"{bank}/s_1"
    assert 0 < len(bank.encode()) <= 192
    assert bank.isascii()
    assert bank.strip(".")


@pytest.mark.parametrize(
    ("template", "bank"),
    [
        ("{agent}", "my-agent"),
        ("hermes-{profile}", "hermes-my-agent"),
        ("{platform}.{chat}", "telegram.4~2F2"),
        ("{agent}-{user}", "my~2Dagent-ada"),
        ("{session}", "s_1"),
        ("shared", "shared"),
    ],
)
def test_a_template_is_filled_from_what_was_known_when_it_was_said(template, bank):
    assert BankTemplate(template).bank(inputs(agent="my-agent")) == bank


def test_a_template_that_comes_to_nothing_names_a_bank():
    assert BankTemplate("{user}").bank(inputs(user="")) == "~"


def test_placeholders_with_nothing_between_them_keep_their_values_apart():
    """An agent name may end where a person's begins: without the hash both banks would be `maina`."""
    template = BankTemplate("{agent}{user}")
    assert template.bank(inputs(agent="main", user="a")) != template.bank(inputs(agent="mai", user="na"))


def test_the_agents_notes_have_a_lane_of_their_own():
    assert BankTemplate().memory_place(AgentName("main"), "") == "main/memory"
    assert BankTemplate("{platform}.{chat}").memory_place(AgentName("main"), "") == "~2E/memory"


@pytest.mark.parametrize("template", ["", "{who}", "{}", "{agent", "a}b", "a/b", "a~b", "é", "{{agent}}", "a b"])
def test_a_template_that_cannot_be_right_is_refused_with_what_is_wrong(template):
    with pytest.raises(ConfigInvalid, match="bank"):
        BankTemplate(template)
    if template == "{who}":
        with pytest.raises(ConfigInvalid, match=r"\{who\} is not a placeholder; use \{agent\}"):
            BankTemplate(template)


@pytest.mark.parametrize("template", ["{agent}", "{agent}-{user}", "fixed"])
def test_notes_of_every_scope_have_a_lane_of_their_own_and_their_bank_is_read_back(template):
    names = BankTemplate(template)
    scopes = ["", "ada", "bob", "a/b", "a", "chat:agent:main:telegram:group:1", "person:chat:x", "memory"]
    places = [names.memory_place(AgentName("main"), scope) for scope in scopes]
    assert len(set(places)) == len(scopes)
    assert all(bank_of(place) and "/" not in bank_of(place) for place in places)
