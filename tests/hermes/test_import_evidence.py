"""The promise: a turn that a provider lists is not delivered to it again, and a turn that it lacks is delivered.

Hindsight and Honcho are the fakes of tests/support, reached by the vendors' real clients over sockets. What they have
has the forms that Hermes' own plugins write, and those that Holdfast writes.
"""

import asyncio
import json
from contextlib import closing

import pytest
from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]
from typer.testing import CliRunner

import holdfast
from holdfast.cli.commands import app
from holdfast.hermes.importing.evidence import DeliveryEvidence, EvidenceOrigin
from holdfast.hermes.importing.settings import assumed_delivered
from holdfast.hermes.importing.turns import ImportedTurn, TimedBody
from holdfast.hermes.kept_messages import KeptMessages, joined_parts, messages_of_document
from holdfast.kernel.ids import Instant, Principal
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.factory import HonchoSettings
from holdfast.turns.journal import AssistantSaid, UserSaid
from holdfast.turns.policy import AgentPolicy
from tests.support.hermes_home import HermesChat, HermesHome
from tests.support.hermes_service import memory_servers

CHAT = HermesChat()
PLACE = "agent-main-telegram-dm-4242"  # the name that Hermes' plugin gives the chat at Honcho
LINES = """\
[2026-02-01T10:00:00.000Z] ada (user): first
    (user): of two lines
[2026-02-01T10:00:01.000Z] main (assistant): no
[2026-02-01T10:00:02.000Z] ada (user): second"""
UNSENT = ("scheduled", "sending", "uncertain")


def of_hermes(*said):
    """A document as Hermes' plugin writes it: a list of turns, each a list of messages."""
    turns = [[{"role": "user", "content": f"User: {one}"}, {"role": "assistant", "content": "ok"}] for one in said]
    return json.dumps(turns)


def turn(*said, n=1):
    entries = [TimedBody(UserSaid(text=one, principal=Principal("ada"), event_id=""), Instant(0)) for one in said]
    return ImportedTurn(
        n=n, key=str(n), first_seq=1, entries=(*entries, TimedBody(AssistantSaid(text="ok"), Instant(0)))
    )


# --- what a provider's texts prove


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (of_hermes("first", "second\nline"), ["first", "second\nline"]),
        (f"{of_hermes('first')}\n{of_hermes('second')}", ["first", "second"]),  # appended without merging
        (LINES, ["first\n    (user): of two lines", "second"]),
        ("a text of somebody else", []),
        ("", []),
    ],
)
def test_the_users_messages_of_a_document_are_found(text, said):
    assert messages_of_document(text) == said


def test_parts_of_a_long_message_are_one_message():
    assert joined_parts([("one", False), ("[continued] two", True), ("three", False)]) == ["onetwo", "three"]


def test_a_stored_message_proves_one_turn():
    evidence = DeliveryEvidence([KeptMessages("honcho", by_place={PLACE: ["yes", "no"]})])
    origin = EvidenceOrigin("s1", PLACE)
    held = [bool(evidence.holders(origin, turn(said))) for said in ("yes", " yes\n", "no")]
    assert held == [True, False, True]
    assert evidence.found == {"honcho": 2}


def test_the_message_that_was_answered_counts():
    evidence = DeliveryEvidence([KeptMessages("honcho", by_place={PLACE: ["answered"]})])
    assert evidence.holders(EvidenceOrigin("s1", PLACE), turn("interrupted", "answered")) == {"honcho"}
    assert evidence.holders(EvidenceOrigin("s1", PLACE), turn("answered", "interrupted")) == frozenset()


def test_a_message_of_another_session_or_chat_proves_nothing():
    kept = KeptMessages("honcho", by_session={"s2": ["yes"]}, by_place={"agent-main-telegram-dm-7": ["yes"]})
    evidence = DeliveryEvidence([kept])
    assert evidence.holders(EvidenceOrigin("s1", PLACE), turn("yes")) == frozenset()
    assert evidence.holders(EvidenceOrigin("s2", PLACE), turn("yes")) == {"honcho"}


LONG = "what did we say about the bicycle?"


def located(places, said):
    """The evidence for a session of an old release, which has no chat key, and whether each message is proved."""
    evidence = DeliveryEvidence([KeptMessages("honcho", by_place=places)])
    origin = EvidenceOrigin("s1")
    assert evidence.must_locate(origin)
    evidence.locate("s1", said)
    return evidence, [bool(evidence.holders(origin, turn(one))) for one in said]


def test_a_session_without_a_chat_is_proved_by_the_place_that_has_most_of_it():
    places = {"a": ["yes"], "b": ["yes", LONG, "no"], "c": [LONG]}
    evidence, proved = located(places, ["yes", LONG, "no", "never sent"])
    assert proved == [True, True, True, False]
    assert evidence.uncertain == {"honcho": 0}


def test_a_short_text_of_another_chat_proves_no_turn_and_is_counted():
    evidence, proved = located({"a": ["yes", "good morning"]}, ["yes", "good morning", LONG])
    assert proved == [False, False, False]
    assert evidence.uncertain == {"honcho": 2}


def test_two_places_that_have_as_much_of_a_session_prove_nothing():
    evidence, proved = located({"a": [LONG], "b": [LONG]}, [LONG])
    assert proved == [False]
    assert evidence.uncertain == {"honcho": 1}


def test_a_hosted_provider_of_hermes_has_what_hermes_gave_it():
    tables = {"local": {}, "hermes": {"provider": "mem0"}}
    assert assumed_delivered(tables, "mem0") == {"hermes"}
    assert assumed_delivered(tables, "hindsight") == frozenset()


# --- with both services


@pytest.fixture
def home(tmp_path):
    """Three chats' sessions: one with three turns, one rotated from it, one of the terminal."""
    made = HermesHome(tmp_path / "home")
    made.session("s1", CHAT)
    for said in ("my cat is called Byron", "yes", "yes"):
        made.say("s1", said, "ok")
    made.route(CHAT, "s1")
    made.session("s2")
    made.say("s2", "a question in the terminal", "ok")
    made.say("s2", "a long text " * 3_000, "ok")
    made.close()
    return made


def tables(servers):
    return {
        "hindsight": {"url": servers.hindsight.url, "bank": "hermes"},
        "honcho": {"url": servers.honcho.url, "workspace": "hermes"},
    }


async def say_at_honcho(servers, place, *messages):
    client = HonchoClient(HonchoSettings(url=servers.honcho.url, workspace="hermes"), None)
    await client.add(place, [MessageCreateParams(content=text, peer_id=peer) for peer, text in messages])
    await client.close()


async def bring(home, servers, tmp_path, *options, code=0):
    """Run the command as an operator does; its report."""
    tmp_path.mkdir(exist_ok=True)
    config = tmp_path / "holdfast.toml"
    lines = [
        f"[agents.main.memory.{name}]\n" + "".join(f'{key} = "{value}"\n' for key, value in table.items())
        for name, table in tables(servers).items()
    ]
    config.write_text("\n".join(lines))
    command = ["hermes", "import", home.folder, "--data", tmp_path / "data", "--config", config, "--json", *options]
    done = await asyncio.to_thread(CliRunner().invoke, app, list(map(str, command)))
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


async def deliver(servers, tmp_path):
    """Serve the store until nothing waits."""
    policy = AgentPolicy(memory=tables(servers))
    async with holdfast.open(tmp_path / "data", policy=policy) as runtime:
        with closing(runtime.events()) as feed:
            while any([await runtime.deliveries(state=state, limit=1) for state in UNSENT]):
                await feed.next_within(1_000)


def count(servers, text):
    """How often each service has a user's message."""
    documents = [said for document in servers.at_hindsight() for said in messages_of_document(document)]
    return documents.count(text), [said for _, said in servers.at_honcho()].count(text)


async def test_each_service_gets_the_turns_that_it_lacks_and_no_other(home, tmp_path):
    async with memory_servers() as servers:
        document = {"document_id": "s1", "content": of_hermes("my cat is called Byron", "yes"), "metadata": {}}
        servers.hindsight.keep({**document, "tags": ["session:s1"]}, "hermes")
        await say_at_honcho(servers, PLACE, ("ada", "yes"), ("hermes", "yes"))
        await say_at_honcho(servers, "home", ("ada", "a question in the terminal"), ("hermes", "ok"))
        dry = await bring(home, servers, tmp_path, "--dry-run")
        report = await bring(home, servers, tmp_path)
        assert report["offered_turns"] == dry["offered_turns"] == 5
        assert report["held_turns"] == dry["held_turns"] == {"hindsight": 2, "honcho": 2}
        await deliver(servers, tmp_path)
        assert count(servers, "my cat is called Byron") == (1, 1)
        assert count(servers, "yes") == (2, 3)  # at Honcho one of them is an answer
        assert count(servers, "a question in the terminal") == (1, 1)


async def test_what_an_earlier_import_delivered_is_known_to_the_next_store(home, tmp_path):
    """The names and forms of Holdfast, with a message that Honcho keeps in parts."""
    async with memory_servers() as servers:
        await bring(home, servers, tmp_path)
        await deliver(servers, tmp_path)
        before = servers.at_hindsight(), servers.at_honcho()
        report = await bring(home, servers, tmp_path / "other")
        assert report["held_turns"] == {"hindsight": 5, "honcho": 5}
        await deliver(servers, tmp_path / "other")
        assert (servers.at_hindsight(), servers.at_honcho()) == before


async def test_with_redeliver_no_service_is_asked_and_each_gets_all(home, tmp_path):
    async with memory_servers() as servers:
        await say_at_honcho(servers, PLACE, ("ada", "my cat is called Byron"))
        asked = len(servers.hindsight.requests)
        assert (await bring(home, servers, tmp_path, "--redeliver"))["held_turns"] == {}
        assert len(servers.hindsight.requests) == asked
        await deliver(servers, tmp_path)
        assert count(servers, "my cat is called Byron") == (1, 2)


@pytest.mark.parametrize("silent", ["hindsight", "honcho"])
async def test_a_service_that_does_not_answer_stops_the_import_before_it_begins(home, tmp_path, silent):
    async with memory_servers() as servers:
        getattr(servers, silent).database_down = True
        complaint = await bring(home, servers, tmp_path, code=1)
        assert f"error[hermes_evidence_missing]: {silent} does not say which turns it has" in complaint
        assert "--redeliver" in complaint
        assert "Traceback" not in complaint
        assert (await bring(home, servers, tmp_path, "--redeliver"))["sessions"][0]["state"] == "imported"
