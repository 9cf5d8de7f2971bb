"""HTTP, the command line and the library give the same answers about pending deliveries, settled deliveries and the
notes that memory holds.
"""

import asyncio
import json
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.api.shapes.shapes import delivery_view
from holdfast.cli.commands import app
from holdfast.kernel.errors import ConfigInvalid, InvalidInput
from holdfast.kernel.ids import AgentName
from holdfast.memory.delivery import Delivered, DeliveryState, Landing, Outcome, Parcel, PerSession, Refused
from holdfast.memory.lane_sql import settle_lanes
from holdfast.memory.notes_sql import read_memory
from holdfast.memory.provider import Capabilities, Configured
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.history_sql import list_deliveries
from holdfast.turns.policy import AgentPolicy
from tests.memory.test_lane_sql import settle, take
from tests.support.driver import retain
from tests.support.fakes import soon
from tests.support.honcho_server import HonchoServer
from tests.support.live import serve
from tests.support.ports import replace_verb, verb_on


class Picky:
    """A provider that refuses what it is told to, and remembers nothing."""

    capabilities = Capabilities(renderer="picky/1", recalls=False, memory=False)

    def __init__(self) -> None:
        self.refuses = True
        self.taken: list[str] = []

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        if self.refuses:
            return [Refused("it is too long") for _ in parcels]
        self.taken += [parcel.id for parcel in parcels]
        return [Delivered(f"receipt of {parcel.id}") for parcel in parcels]

    async def landed(self, parcel: Parcel) -> Landing:
        return Landing.LANDED if parcel.id in self.taken else Landing.ABSENT

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        return ()

    async def healthy(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def picky(monkeypatch):
    provider = Picky()
    monkeypatch.setattr(
        "holdfast.runtime.plugins.find_factory", lambda *_: lambda _setup: Configured(provider, PerSession())
    )
    return provider


PICKY = AgentPolicy(memory={"picky": {}})


async def settled(runtime: Runtime, state: str) -> None:
    """Wait until every delivery is in the state."""
    feed = runtime.events()

    async def watch() -> None:
        while any(one.state != state for one in await runtime.deliveries()) or not await runtime.deliveries():
            await feed.next_within(1_000)

    try:
        await soon(watch())
    finally:
        feed.close()


async def settled_all(runtime: Runtime) -> None:
    """Wait until nothing is on its way."""
    feed = runtime.events()

    async def watch() -> None:
        while any(one.state in {"scheduled", "sending", "uncertain"} for one in await runtime.deliveries()):
            await feed.next_within(1_000)

    try:
        await soon(watch())
    finally:
        feed.close()


# --- over HTTP -------------------------------------------------------------------------------------


async def test_a_delivery_is_followed_from_its_message_to_its_receipt(tmp_path):
    async with serve(tmp_path) as live:
        accepted = (await live.say("My cat is called Byron.", chat="a")).json()
        await live.runtime.reply_to(accepted["message"])
        await settled(live.runtime, "delivered")
        trace = (await live.get(f"/v1/messages/{accepted['message']}")).json()
        (delivery,) = trace["deliveries"]
        assert (delivery["provider"], delivery["state"], delivery["attempt"]) == ("local", "delivered", 1)
        assert delivery["receipt"]
        listed = (await live.get("/v1/deliveries", provider="local", state="delivered")).json()
        assert listed == {"deliveries": [delivery], "next": None}
        assert (await live.get("/v1/deliveries", provider="nobody")).json()["deliveries"] == []


async def test_a_delivery_shows_when_it_is_due_until_it_is_settled(driver):
    driver.policies = (retain(),)
    await driver.chat("one")
    shown = [await due(driver)]
    (claim,) = await take(driver)
    shown.append(await due(driver))
    await settle(driver, claim, DeliveryState.UNCERTAIN, reason="no answer")
    shown.append(await due(driver))
    (claim,) = await take(driver)
    await settle(driver, claim)
    assert [*shown, await due(driver)] == [driver.clock.now()] * 3 + [None]


async def due(driver):
    (found,) = await driver.db.read(list_deliveries())
    return delivery_view(found).due_at


async def test_deliveries_come_in_pages(tmp_path):
    async with serve(tmp_path) as live:
        await live.talk("one", "two", "three")
        first = (await live.get("/v1/deliveries", limit=2)).json()
        rest = (await live.get("/v1/deliveries", limit=2, after=first["next"])).json()
        assert [one["from_turn"] for one in first["deliveries"] + rest["deliveries"]] == [3, 2, 1]
        assert rest["next"] is None


@pytest.mark.parametrize("query", [{"state": "lost"}, {"after": "x"}, {"limit": "0x1"}, {"colour": "red"}])
async def test_a_question_about_deliveries_that_cannot_be_meant_is_refused(tmp_path, query):
    async with serve(tmp_path) as live:
        response = await live.get("/v1/deliveries", **query)
        assert response.status_code == 400
        assert response.json()["error"]["hint"]


async def test_a_parked_delivery_shows_its_reason_and_is_replayed_late(tmp_path, picky):
    async with serve(tmp_path, policy=PICKY) as live:
        await live.talk("a very long story")
        await settled(live.runtime, "parked")
        (parked,) = (await live.get("/v1/deliveries", state="parked")).json()["deliveries"]
        assert parked["reason"] == "it is too long"
        assert parked["due_at"] is None
        picky.refuses = False
        response = await live.post(f"/v1/deliveries/{parked['id']}/replay")
        assert (response.status_code, response.json()) == (202, {"delivery": parked["id"], "state": "scheduled"})
        await settled(live.runtime, "delivered")
        (late,) = (await live.get("/v1/deliveries")).json()["deliveries"]
        assert (late["late"], late["receipt"]) == (True, f"receipt of {parked['id']}")
        again = await live.post(f"/v1/deliveries/{parked['id']}/replay")
        assert (again.status_code, again.json()["error"]["code"]) == (400, "invalid_input")


async def test_a_fault_of_ours_behind_a_delivery_leaves_no_lane_taken(tmp_path, picky, monkeypatch):
    picky.refuses = False
    async with serve(tmp_path, policy=PICKY) as live:
        honest = verb_on(live.runtime.db, settle_lanes)
        failed: list[object] = []

        async def broken(settled):
            if not failed:
                failed.append(settled)
                raise RuntimeError("a bug")
            await honest(settled)

        replace_verb(monkeypatch, live.runtime.db, settle_lanes, broken)
        await live.talk("hello")
        await settled(live.runtime, "delivered")
        (delivery,) = await live.runtime.deliveries()
        assert failed
        assert delivery.receipt == "found at the provider", "it was asked about, and not sent again"
        assert len(picky.taken) == 1


async def test_an_unknown_delivery_cannot_be_replayed(tmp_path):
    async with serve(tmp_path) as live:
        response = await live.post("/v1/deliveries/local:nothing:1/replay")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "delivery_not_found")


async def test_memory_is_asked_over_http(tmp_path):
    async with serve(tmp_path) as live:
        await live.talk("My cat is called Byron.", chat="a")
        await settled(live.runtime, "delivered")
        found = (await live.get("/v1/recall", q="what is the cat called?", chat="b", sender="user")).json()
        assert found["memories"][0]["text"] == "My cat is called Byron."
        assert found["skipped"] == []
        stranger = (await live.get("/v1/recall", q="what is the cat called?", chat="b", sender="eve")).json()
        assert stranger["memories"] == [], "what others said in private is theirs alone"
        other = await live.get("/v1/recall", q="cat", agent="other")
        assert other.json()["memories"] == [], "an agent never sees another agent's memory"
        assert (await live.get("/v1/recall")).status_code == 400
        assert (await live.get("/v1/recall", q="cat", agent="no such name!")).status_code == 400


# --- in a program ----------------------------------------------------------------------------------


async def test_what_was_said_in_one_session_is_recalled_in_the_next(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        await runtime.ask("home", "My cat is called Byron.")
        await settled(runtime, "delivered")
        await runtime.ask("home", "/new")
        assert "Byron" in await runtime.ask("home", "What is my cat called?")
        session = (await runtime.sessions())[0].id
        kinds = [view.entry.kind for view in await runtime.history(session)]
        assert kinds == ["user", "recall", "assistant"]
        prompt = await runtime.prompt(session)
        assert not any("recalled-memory" in one.content for one in prompt.messages), "it belonged to its turn only"


async def test_what_was_recalled_is_never_delivered(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        await runtime.ask("home", "My cat is called Byron.")
        await settled(runtime, "delivered")
        await runtime.ask("home", "/new")
        await runtime.ask("home", "What is my cat called?")
        await settled(runtime, "delivered")
        found = await runtime.recall("recalled memory data instructions", chat="home")
        assert not any("recalled-memory" in one.text for one in found.memories)


async def test_an_agents_notes_are_kept_shown_and_written_to_its_file(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        answer = await runtime.ask("home", 'use memory {"action": "add", "content": "Deploys happen on Fridays."}')
        assert "added" in answer
        held = await runtime.db.read(read_memory(AgentName("main"), "home"))
        assert [one.text for one in held.entries] == ["Deploys happen on Fridays."]
        await settled(runtime, "delivered")
        await runtime.ask("home", "/new")
        await runtime.ask("home", "hello")
        session = (await runtime.sessions())[0].id
        assert "Deploys happen on Fridays." in (await runtime.prompt(session)).messages[0].content
    files = tmp_path / "agents" / "main"
    assert (files / "users" / "home" / "MEMORY.md").read_text() == "Deploys happen on Fridays.\n"
    assert not (files / "MEMORY.md").exists(), "what one person's conversation made is not shared"


async def test_settings_that_cannot_be_right_are_refused_when_it_is_opened(tmp_path):
    for memory, what in (
        ({"locl": {}}, "no provider 'locl'"),
        ({"local": {"limt": 3}}, "limt"),
        ({"hindsight": {}}, "url"),
        ({"hindsight": {"url": "http://169.254.169.254/"}}, "169.254"),
        ({"honcho": {"url": "ftp://x"}}, "ftp"),
    ):
        with pytest.raises(ConfigInvalid, match=what) as caught:
            async with holdfast.open(tmp_path, policy=AgentPolicy(memory=memory)):
                pass
        assert "agents.main.memory." in str(caught.value)


async def test_a_configuration_refused_leaves_the_folder_free(tmp_path):
    with pytest.raises(ConfigInvalid):
        async with holdfast.open(tmp_path, policy=AgentPolicy(memory={"locl": {}})):
            pass
    async with holdfast.open(tmp_path) as runtime:
        assert await runtime.ask("home", "hello")


async def test_a_provider_added_later_begins_with_the_next_turn_unless_it_is_backfilled(tmp_path, picky):
    picky.refuses = False
    async with holdfast.open(tmp_path, policy=AgentPolicy(memory={})) as runtime:
        for text in ("one", "two", "/undo", "three", "/new", "four"):
            await runtime.ask("home", text)
    async with holdfast.open(tmp_path, policy=PICKY) as runtime:
        await runtime.ask("home", "five")
        await settled(runtime, "delivered")
        assert len(picky.taken) == 1, "five"
        assert await runtime.backfill("picky") == 2, "one and three: two was undone; four has a cursor behind it"
        assert await runtime.backfill("picky") == 0
        await settled(runtime, "delivered")
        assert len(picky.taken) == 3
        with pytest.raises(InvalidInput, match="has no provider 'nobody'; it has picky"):
            await runtime.backfill("nobody")
        with pytest.raises(InvalidInput, match="no index"):
            await runtime.rebuild("picky")


async def test_an_index_that_was_lost_is_noticed_and_filled_again_from_the_journal(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        for text in ("My cat is called Byron.", "My dog is called Ada.", "/undo", "I like tea."):
            await runtime.ask("home", text)
        await settled_all(runtime)
    (tmp_path / "agents" / "main" / "local" / "recall.db").unlink()
    async with holdfast.open(tmp_path) as runtime:
        feed = runtime.events()
        while not (await runtime.recall("what is the cat called?", chat="home")).memories:
            event = await feed.next_within(10_000)
            assert event is not None, "the event was not logged"
        feed.close()
        assert (await runtime.recall("what is the cat called?", chat="home")).memories[
            0
        ].text == "My cat is called Byron."
        assert not any(
            "Ada" in one.text for one in (await runtime.recall("what is the dog called?", chat="home")).memories
        )
        assert await runtime.rebuild() >= 2, "and an operator may have it done at any time"
        assert (await runtime.recall("what is the cat called?", chat="home")).memories[
            0
        ].text == "My cat is called Byron."


async def test_memory_files_are_brought_to_a_provider_once(tmp_path):
    async with HonchoServer() as server:
        settings = {"files": {}, "honcho": {"url": server.url, "strategy": "global"}}
        async with holdfast.open(tmp_path, policy=AgentPolicy(memory=settings)) as runtime:
            await runtime.ask("home", 'use memory {"action": "add", "content": "Deploys happen on Fridays."}')
            await settled(runtime, "delivered")
            nothing = await runtime.migrate_memory()
            first, again = await runtime.migrate_memory(subject="home"), await runtime.migrate_memory(subject="home")
        assert nothing["honcho"]["MEMORY.md"] == Delivered("there was nothing to store")
        assert first["honcho"]["MEMORY.md"] == Delivered("1 messages")
        assert first["honcho"]["SOUL.md"] == Delivered("there was nothing to store")
        assert again["honcho"]["MEMORY.md"] == Delivered("migrated before")


# --- on the command line ---------------------------------------------------------------------------


async def run(*words):
    """A command runs an event loop of its own, which no thread may have two of."""
    return await asyncio.to_thread(CliRunner().invoke, app, [*map(str, words)], prog_name="holdfast")


async def test_the_command_line_says_the_same(tmp_path, picky):
    async with holdfast.open(tmp_path, policy=PICKY) as runtime:
        await runtime.ask("home", "a very long story")
        await settled(runtime, "parked")
    (tmp_path / "holdfast.toml").write_text("[agents.main.memory.picky]\n")
    done = await run("deliveries", "--data", tmp_path, "--state", "parked", "--json")
    (parked,) = json.loads(done.stdout)["deliveries"]
    assert parked["reason"] == "it is too long"
    table = await run("deliveries", "--data", tmp_path)
    assert "parked" in table.stdout
    assert "it is too long" in table.stdout
    replayed = await run("replay", parked["id"], "--data", tmp_path, "--json")
    assert json.loads(replayed.stdout) == {"delivery": parked["id"], "state": "scheduled"}
    wrong = await run("deliveries", "--data", tmp_path, "--state", "lost")
    assert (wrong.exit_code, "'lost' is not one of 'scheduled'" in wrong.stderr) == (2, True)


async def test_memory_is_asked_on_the_command_line(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        await runtime.ask("home", "My cat is called Byron.")
        await settled(runtime, "delivered")
    done = await run("recall", "what is the cat called?", "--chat", "home", "--data", tmp_path, "--json")
    assert json.loads(done.stdout)["memories"][0]["text"] == "My cat is called Byron."
    assert "Byron" in (await run("recall", "the cat", "--chat", "home", "--data", tmp_path)).stdout
    assert (await run("recall", "cat", "--data", tmp_path, "--agent", "no such!")).exit_code == 1
