"""Names at Honcho: two keys that differ never share a session or a peer, and one key always gets the same name."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.address import Address
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.memory.delivery import NamingInputs
from holdfast.providers.honcho.naming import NAME_CHARS_MAX, HonchoNames, Strategy, escaped

ID = re.compile(r"^[a-zA-Z0-9_-]{1,512}$")
AGENT = AgentName("main")
TEXT = st.text(max_size=300)
NAMES = HonchoNames()


def inputs(**given) -> NamingInputs:
    defaults = {"agent": AGENT, "session": SessionId("ses_1"), "principal": Principal("ada")}
    return NamingInputs(**{**defaults, **given})


def chat(chat: str, **more) -> str:
    return str(Address(agent=AGENT, channel="telegram", type="dm", chat=chat, **more))


# --- the order of R17 -------------------------------------------------------------------------------


def test_a_mapped_title_comes_first():
    names = HonchoNames(titles=(("Garden", "roses"),))
    assert names.place(inputs(title="Garden", address=chat("42"))) == "title-main-roses"


def test_a_title_that_is_not_mapped_names_nothing():
    """A title that appears later would otherwise move a running chat to another session."""
    assert NAMES.place(inputs(title="Garden", address=chat("42"))) == NAMES.place(inputs(address=chat("42")))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_the_chat_comes_before_every_strategy(strategy):
    names = HonchoNames(strategy=strategy)
    assert names.place(inputs(address=chat("42"), directory="/a/app")) == "chat-main-telegram-dm-42--"


def test_an_address_of_another_runtime_is_a_chat_of_its_own():
    assert NAMES.place(inputs(address="desk/42", directory="/a/app")) == "chat-main-desk_2f42"


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_chat_keeps_its_session_across_new_sessions(strategy):
    names = HonchoNames(strategy=strategy)
    before, after = inputs(address=chat("42")), inputs(address=chat("42"), session=SessionId("ses_2"), title="Other")
    assert names.place(before) == names.place(after)


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        (Strategy.PER_SESSION, "session-main-ses_5f1"),
        (Strategy.PER_DIRECTORY, "directory-main-_2fa_2fapp"),
        (Strategy.PER_REPO, "repo-main-_2fa"),
        (Strategy.GLOBAL, "global-main"),
    ],
)
@pytest.mark.parametrize("address", ["", str(Address(agent=AGENT, channel="terminal", type="dm", chat="x"))])
def test_a_conversation_without_a_chat_is_named_by_the_strategy(strategy, name, address):
    names = HonchoNames(strategy=strategy)
    assert names.place(inputs(address=address, directory="/a/app", repo="/a")) == name


@pytest.mark.parametrize("strategy", [Strategy.PER_DIRECTORY, Strategy.PER_REPO])
def test_what_the_strategy_lacks_falls_back_to_the_session(strategy):
    assert HonchoNames(strategy=strategy).place(inputs()) == "session-main-ses_5f1"


@pytest.mark.parametrize("given", [{"title": "T"}, {"address": chat("42")}, {}, {"directory": "/a"}, {"repo": "/a"}])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_the_prefix_stands_before_every_name(given, strategy):
    names = HonchoNames(strategy=strategy, prefix="lab", titles=(("T", "t"),))
    bare = replace(names, prefix="")
    assert names.place(inputs(**given)) == f"lab-{bare.place(inputs(**given))}"
    assert names.memory_place(AGENT, "ada") == f"lab-{bare.memory_place(AGENT, 'ada')}"
    assert names.agent_peer(AGENT) == f"lab-{bare.agent_peer(AGENT)}"
    assert names.person_peer(AGENT, "ada") == f"lab-{bare.person_peer(AGENT, 'ada')}"


# --- no two keys share a name -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"address": chat("a:b")}, {"address": chat("a-b")}),
        ({"address": chat("a", thread="b")}, {"address": chat("a", user="b")}),
        ({"address": chat("a:b")}, {"address": chat("a", thread="b")}),
        ({"directory": "/a/app"}, {"directory": "/b/app"}),
        ({"agent": AgentName("a-b")}, {"agent": AgentName("a.b")}),
        ({"directory": "x" * 300 + "1"}, {"directory": "x" * 300 + "2"}),
        ({"directory": "ses_1"}, {"session": SessionId("ses_1")}),
    ],
)
def test_keys_that_look_alike_stay_apart(one, other):
    names = HonchoNames(strategy=Strategy.PER_DIRECTORY)
    assert names.place(inputs(**one)) != names.place(inputs(**other))


KEYS = st.fixed_dictionaries(
    {},
    optional={
        "agent": st.from_regex(r"[a-c.-]{1,3}", fullmatch=True),
        "session": st.text(min_size=1, max_size=120),
        "address": st.one_of(st.builds(chat, st.text("ab:-_%/", min_size=1, max_size=4)), st.just(chat("z" * 400))),
        "title": st.sampled_from(["T", "U"]),
        "directory": st.text("ab/-_", max_size=200),
        "repo": st.text("ab/-_", max_size=200),
    },
)


def meant(names: HonchoNames, given: NamingInputs) -> tuple[object, ...]:
    """What tells two conversations apart, written without any regard to spelling."""
    if given.title == "T":
        return ("title", given.agent)
    if given.address:
        return ("chat", given.agent, given.address)
    if names.strategy is Strategy.GLOBAL:
        return ("global", given.agent)
    if names.strategy is Strategy.PER_REPO and given.repo:
        return ("repo", given.agent, given.repo)
    if names.strategy in (Strategy.PER_DIRECTORY, Strategy.PER_REPO) and given.directory:
        return ("directory", given.agent, given.directory)
    return ("session", given.agent, given.session)


@given(st.sampled_from(Strategy), st.sampled_from(["", "p", "p-q"]), KEYS, KEYS)
def test_names_are_equal_exactly_when_the_keys_are(strategy, prefix, one, other):
    names = HonchoNames(strategy=strategy, prefix=prefix, titles=(("T", "same"),))
    first, second = inputs(**one), inputs(**other)
    assert (names.place(first) == names.place(second)) == (meant(names, first) == meant(names, second))


@given(TEXT, TEXT)
def test_escaping_never_makes_two_texts_equal(one, other):
    assert (escaped(one) == escaped(other)) == (one == other)


@given(TEXT, TEXT, TEXT)
def test_every_name_is_one_that_honcho_takes(session, directory, person):
    for strategy in Strategy:
        names = HonchoNames(strategy=strategy)
        made = names.place(inputs(session=SessionId(session), directory=directory, repo=person))
        lanes = [made, names.memory_place(AGENT, person), names.files_place(AGENT, person)]
        peers = [names.person_peer(AGENT, person), names.agent_peer(AGENT)]
        assert all(ID.match(name) and len(name) <= NAME_CHARS_MAX for name in lanes + peers)


@given(st.sampled_from(["a", "a-b", "b"]), TEXT, st.sampled_from(["a", "a-b", "b"]), TEXT)
def test_peers_of_different_people_and_agents_stay_apart(agent, person, other_agent, other):
    first, second = NAMES.person_peer(AgentName(agent), person), NAMES.person_peer(AgentName(other_agent), other)
    assert (first == second) == ((agent, person) == (other_agent, other))
    assert NAMES.agent_peer(AgentName(agent)) != second


def test_names_have_value_equality():
    assert HonchoNames(titles=(("a", "b"),)) == HonchoNames(titles=(("a", "b"),))


def test_people_with_threads_of_their_own_in_one_chat_have_sessions_of_their_own():
    ada, bob, all_of_them = (
        NAMES.place(inputs(address=chat("7", **more))) for more in ({"user": "ada"}, {"user": "bob"}, {})
    )
    assert len({ada, bob, all_of_them}) == 3


# --- compat -----------------------------------------------------------------------------------------


HERMES = HonchoNames(compat=True, strategy=Strategy.PER_DIRECTORY, workspace="hermes")


@pytest.mark.parametrize(
    ("given", "strategy", "name"),
    [
        ({"address": chat("42")}, Strategy.PER_DIRECTORY, "agent-main-telegram-dm-42"),
        ({"address": chat("-100"), "title": "T"}, Strategy.GLOBAL, "agent-main-telegram-dm--100"),
        ({"address": chat("a:b", user="9")}, Strategy.PER_SESSION, "agent-main-telegram-dm-a-b-9"),
        ({"session": SessionId("20260101_101010_ab12cd34")}, Strategy.PER_SESSION, "20260101_101010_ab12cd34"),
        ({"directory": "/home/ada/my app"}, Strategy.PER_DIRECTORY, "my-app"),
        ({"directory": "/mapped"}, Strategy.PER_DIRECTORY, "chosen"),
        ({"directory": "/other", "title": "mapped too"}, Strategy.PER_DIRECTORY, "also-chosen"),
        ({"directory": "/a/app", "title": "Über uns!"}, Strategy.PER_DIRECTORY, "ber-uns"),
        ({"directory": "/a/app", "repo": "/a/root"}, Strategy.PER_REPO, "root"),
        ({"directory": "/a/app"}, Strategy.PER_REPO, "app"),
        ({"directory": "/a/app"}, Strategy.GLOBAL, "hermes"),
    ],
)
def test_compat_builds_the_names_of_hermes(given, strategy, name):
    names = replace(HERMES, strategy=strategy, titles=(("/mapped", "chosen"), ("mapped too", "also-chosen")))
    assert names.place(inputs(**given)) == name


def test_compat_shortens_a_long_chat_key_as_hermes_does():
    place = HERMES.place(inputs(address=chat("x" * 200)))
    assert place == f"agent-main-telegram-dm-{'x' * 68}-9ff67f46"
    assert len(place) == 100


def test_compat_prefixes_as_hermes_does():
    names = replace(HERMES, prefix="ada")
    assert names.place(inputs(directory="/a/app")) == "ada-app"
    assert names.place(inputs(address=chat("42"))) == "agent-main-telegram-dm-42"
    assert names.person_peer(AGENT, "42") == "42"


def test_compat_prefixes_people_as_hermes_does():
    names = replace(HERMES, runtime_prefix="tg_", peers=(("7", "tg_9"),))
    assert names.person_peer(AGENT, "42") == "tg_42"
    assert names.person_peer(AGENT, "4:2") == "tg_4-2-8f5f7fdf"
    assert names.person_peer(AGENT, "9") == "tg_9-e0e54f0f"


def test_compat_peers_are_those_of_hermes():
    assert HERMES.person_peer(AGENT, "4:2") == "4-2"
    assert HERMES.agent_peer(AGENT) == "hermes"
    assert HERMES.agent_peer(AgentName("work")) == "hermes_work"
    assert replace(HERMES, peers=(("42", "ada"), ("main", "jarvis"))).person_peer(AGENT, "42") == "ada"
    assert replace(HERMES, peers=(("42", "ada"), ("main", "jarvis"))).agent_peer(AGENT) == "jarvis"


@given(TEXT, TEXT, TEXT)
def test_compat_names_are_ones_that_honcho_takes(title, directory, person):
    for strategy in Strategy:
        names = replace(HERMES, strategy=strategy)
        assert ID.match(names.place(inputs(title=title, directory=directory)))
        assert ID.match(names.person_peer(AGENT, person))
