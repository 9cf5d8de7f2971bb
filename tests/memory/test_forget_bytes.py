"""The promise: once a forgetting is done, no byte of the words is in any file of the data folder: database, log, search
index, memory files. What others said is still there (I16).

The files are read by a process of its own: closing a second handle of a live database would drop its locks.
"""

import asyncio
import json
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace

import apsw
import pytest

from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import AgentName, ForgetId, Principal
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting, read_forgetting
from holdfast.memory.forgetter import Forgetter, scrub_forgotten
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.monitor.queues_sql import read_queues
from holdfast.outbox.reply_sql import list_replies
from holdfast.runtime.app import DATABASE, make_agents, open_runtime
from holdfast.sessions.finalisation_sql import list_finalisations
from holdfast.store.node_sql import register_node
from holdfast.store.sqlite import ThreadedDatabase
from holdfast.testing import ManualClock
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ModelAnswer, ModelTask
from holdfast.turns.policy import AccessPolicy
from tests.support.driver import Driver
from tests.support.fakes import policy, soon
from tests.support.patience import HANGS_S

CANARY = "marmalade"
SCAN = """
import pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.is_file() and sys.argv[2].encode() in path.read_bytes():
        print(path.name)
"""


def found_in(folder, word=CANARY):
    """The files that hold the word."""
    done = subprocess.run(
        [sys.executable, "-c", SCAN, str(folder), word], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    return set(done.stdout.split())


@asynccontextmanager
async def driven(folder):
    clock = ManualClock()
    database = ThreadedDatabase.open(folder / DATABASE, clock)
    try:
        driver = Driver(database, clock)
        await driver.db.write(register_node(driver.node, "here", sole=True))
        yield driver
    finally:
        await database.close()


async def fill(driver, rounds=60):
    """Enough of both that pages are split, cells move, and long texts overflow."""
    for n in range(rounds):
        await driver.talk(f"{CANARY} {n} " * (1 + n % 7 * 40), f"yes, {CANARY} {n}")
        await driver.talk(f"Rex {n} " * (1 + n % 5 * 30), f"good Rex {n}", who="bob")
        if n % 10 == 0:
            await driver.command(f"/title {CANARY} {n} {'x' * n}")


def ada(id="forget_1"):
    return ForgetRequest(id=ForgetId(id), person=Principal("ada"))


async def test_no_byte_is_left_in_the_database_or_its_log(tmp_path):
    async with driven(tmp_path) as driver:
        await fill(driver)
        await driver.db.write(begin_forgetting(ada()))
        assert DATABASE in found_in(tmp_path) or f"{DATABASE}-wal" in found_in(tmp_path)
        await scrub_forgotten(driver.db)
        assert found_in(tmp_path) == set()
        assert DATABASE in found_in(tmp_path, "good Rex 59")
        assert driver.db.wal_bytes() > 0  # the receipt was written after it
        assert (await driver.db.read(read_forgetting(ForgetId("forget_1")))).done
        await driver.talk("hello again")
    assert found_in(tmp_path) == set()


async def test_a_reader_that_holds_on_to_the_log_keeps_it_pending(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.writer.WRITE_LOCK_POLLS_MAX", 5)
    async with driven(tmp_path) as driver:
        await driver.talk(CANARY)
        db = apsw.Connection(str(tmp_path / DATABASE))
        db.execute("begin")
        db.execute("select count(*) from entry").fetchall()
        await driver.db.write(begin_forgetting(ada()))
        with pytest.raises(StoreUnavailable):
            await scrub_forgotten(driver.db)
        found = await driver.db.read(read_forgetting(ForgetId("forget_1")))
        assert (found.done, found.scrubbed_at) == (False, None)
        db.execute("rollback")
        db.close()
        assert await scrub_forgotten(driver.db) == 1
        assert found_in(tmp_path) == set()


async def test_writes_that_come_with_a_scrub_are_all_answered(tmp_path):
    async with driven(tmp_path) as driver:
        await driver.talk(CANARY)
        await driver.db.write(begin_forgetting(ada()))
        said = [driver.say(f"hello {n}", chat=f"c{n}") for n in range(20)]
        scrubs = [scrub_forgotten(driver.db) for _ in range(2)]
        done = await soon(asyncio.gather(*said[:10], *scrubs, *said[10:]))
        assert len({one for one in done if isinstance(one, str)}) == 20
        assert found_in(tmp_path) == set()


async def test_no_byte_is_left_in_any_file_of_the_data_folder(tmp_path):
    async with await open_runtime(tmp_path, agents=make_agents()) as runtime:
        for n in range(5):
            await soon(runtime.ask("home", f"my cat {CANARY} is {n}", sender="ada"))
            await soon(runtime.ask("home", f"my dog Rex is {n}", sender="bob"))
        for who, text in (("ada", f"{CANARY} is a cat"), ("bob", "Rex is a dog")):
            change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=text)
            batch = MemoryBatch(
                agent=AgentName("main"),
                subject="",
                origin=f"note of {who}",
                changes=(change,),
                principal=Principal(who),
            )
            assert isinstance(await runtime.apply_memory(batch), Applied)
        await delivered(runtime)
        assert found_in(tmp_path) >= {"MEMORY.md"}
        asked = await runtime.forget(person="ada", agent="main")
        assert {part.provider for part in asked.parts} == {"local", "files"}
        await soon(see_through(runtime, asked.id))
        assert found_in(tmp_path) == set()
        assert "MEMORY.md" in found_in(tmp_path, "Rex is a dog")
        shown = await runtime.recall("what is the dog called?", chat="home", sender="bob")
        assert any("Rex" in one.text for one in shown.memories)
        again = await soon(runtime.ask("home", "what is my cat called?", sender="ada"))
        assert CANARY not in again
    assert found_in(tmp_path) == set()


async def delivered(runtime):
    """Until nothing is on its way."""
    while any(one.state in {"scheduled", "sending", "uncertain"} for one in await runtime.deliveries()):
        pass


async def see_through(runtime, id):
    loop = Forgetter(
        runtime.ports,
        recaller=runtime._recaller,
        briefing=runtime._briefing,
        quiet_ms=0,
    )
    while not (await runtime.forget_status(id)).done:
        await loop.step()


class Gossip:
    """Implements `Model`: repeats every word that it is shown to everybody, notes it, and passes it on to moss."""

    name = "gossip"

    async def ask(self, request):
        seen = " ".join(sorted({word for one in request.messages for word in WORD.findall(one.content)}))
        last = request.messages[-1]
        if request.task is ModelTask.EXTRACT:
            changes = [{"verb": "add", "target": "memory", "text": f"extracted {seen}"}]
            yield ModelAnswer(text=json.dumps({"changes": changes if seen else []}))
        elif request.task is ModelTask.REPLY and last.role == "user" and "Tell moss" in last.content:
            wish = json.dumps({"to": "moss", "text": f"Remember: they say {seen}"})
            yield ModelAnswer(text="", calls=(ToolCall(id="call_1", name="send_message", arguments=wish),))
        elif request.task is ModelTask.REPLY and last.role == "user" and "Remember" in last.content:
            wish = json.dumps({"action": "add", "target": "memory", "content": f"noted {seen}"})
            yield ModelAnswer(text="", calls=(ToolCall(id="call_2", name="memory", arguments=wish),))
        else:
            yield ModelAnswer(text=f"I know {seen}")


WORD = re.compile(r"(?:marmalade|rexdog)\w*")


def gossiping():
    model = Gossip()
    names = [AgentName("main"), AgentName("moss")]
    access = AccessPolicy(operators=frozenset({"bob"}))  # who may begin another session in a chat of several people
    chosen = replace(policy(), memory={"local": {}, "files": {}}, access=access)
    chosen_for = {names[0]: replace(chosen, talks_to=("moss",)), names[1]: chosen}
    made = {name: Agent(policy=one, model=model, summariser=model, tools=ToolBox()) for name, one in chosen_for.items()}
    return Agents(None, made)


async def test_no_byte_is_left_of_what_was_repeated_to_others_and_passed_on_to_another_agent(tmp_path):
    """A shared chat, a model that repeats everything to everybody, notes, extraction, another agent and its memory."""
    async with await open_runtime(tmp_path, agents=gossiping()) as runtime:
        for text, who in (
            (f"my cat is {CANARY}home", "ada"),
            ("what do you know?", "bob"),
            (f"Remember {CANARY}note", "ada"),
            ("Remember rexdog", "bob"),
            (f"Tell moss of {CANARY}moss", "ada"),
            ("Tell moss of rexdog", "bob"),
        ):
            await soon(runtime.ask("home", text, sender=who))
        await soon(quiet(runtime))
        await soon(runtime.ask("home", "/new", sender="bob"))
        await soon(quiet(runtime))
        await soon(runtime.ask("home", "what is noted?", sender="bob"))
        await soon(quiet(runtime))
        assert {DATABASE, "MEMORY.md"} <= {name.removesuffix("-wal") for name in found_in(tmp_path)}
        moss = await runtime.sessions(agent="moss")
        told = [one.entry.text for session in moss for one in await runtime.history(session.id)]
        assert any(CANARY in text for text in told), "moss was told"
        assert "moss" in {path.parts[-4] for path in tmp_path.glob("agents/*/chats/*/MEMORY.md")}, "and noted it"
        asked = await runtime.forget(person="ada", agent="main")
        await soon(see_through(runtime, asked.id))
        assert found_in(tmp_path) == set()
        assert DATABASE in found_in(tmp_path, "rexdog")
    assert found_in(tmp_path) == set()


async def quiet(runtime):
    """Until nothing is on its way: replies, messages between agents, extractions, deliveries."""
    while True:
        busy = [one for one in await runtime.db.read(list_replies()) if one.state in {"pending", "attempting"}]
        boxes = (await runtime.db.read(read_queues())).messages
        ends = [one for one in await runtime.db.read(list_finalisations(limit=100)) if not one.ended]
        sent = [one for one in await runtime.deliveries() if one.state in {"scheduled", "sending", "uncertain"}]
        if not (busy or boxes or ends or sent):
            return
