"""An ended epoch is extracted from once, through every crash: no second model call once an answer is stored, no second
memory, and no session torn down under a message.
"""

import asyncio
import json
import logging
import shutil
from pathlib import Path

import pytest

from holdfast.kernel.ids import AgentName, NodeId, SessionId
from holdfast.kernel.notifier import Topic
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.notes import Capacity, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory, list_memory_operations, read_memory
from holdfast.models.practice import PracticeModel
from holdfast.sessions.extraction_sql import read_excerpt
from holdfast.sessions.finalisation import Finalisation, FinishPolicy
from holdfast.sessions.finalisation_sql import claim_finalisation, list_finalisations, retry_finalisation
from holdfast.sessions.finisher import Finisher
from holdfast.sessions.history_sql import list_entries, read_session
from holdfast.sessions.session import SessionState
from holdfast.store.membership import Member
from holdfast.store.node_sql import register_node, retire_node
from holdfast.testing import ManualClock, SeededEntropy
from holdfast.testing.inline_database import InlineDatabase
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.model import Model, ModelTask
from holdfast.turns.policy import MINUTE_MS, AgentPolicy, ExpiryPolicy
from holdfast.turns.record_sql import record_turn
from tests.support.driver import Driver, record
from tests.support.fakes import Gate, ScriptedModel, raises, says, soon, stands_at
from tests.support.ports import make_ports, replace_verb, verb_on

FERN = AgentName("fern")
CAT = "Has a cat called Byron."
ANSWER = json.dumps({"changes": [{"verb": "add", "target": "user", "text": CAT}]})
IDLE = ExpiryPolicy(idle_minutes=30)
RETRY = RetryPolicy(delay_ms_base=1_000, delay_ms_max=60_000)


class Died(BaseException):
    """The process was killed."""


class Life:
    """One process that finishes, over the file of a store. It may die before its n-th statement."""

    def __init__(self, folder: Path, clock: ManualClock, *, dies_at: int = 0) -> None:
        self.clock = clock
        self.statements: list[str] = []
        self.dies_at = dies_at
        self.dies_after = ""  # a verb: dies as soon as it is committed
        self.dead = asyncio.Event()
        self.running = ""  # the verb whose statements are run
        self.database = InlineDatabase(
            folder / "store.db",
            clock,
            synchronous="off",
            before_statement=self._probe,
            on_crash=lambda _death: self.dead.set(),
        )

    def _probe(self, verb: str, sql: str) -> None:
        self.statements.append(f"{verb}: {sql[:40]}")
        if sql == "committed" and self.running == self.dies_after != "":
            raise Died
        self.running = verb if sql not in {"commit", "committed"} else self.running
        if len(self.statements) == self.dies_at:
            raise Died

    async def start(
        self, model: Model, policy: AgentPolicy | None = None, *, name: str = "a", sole: bool = True
    ) -> None:
        self.db = self.database
        ports = make_ports(self.db, clock=self.clock, entropy=SeededEntropy(name))
        self.notifier = ports.notifier
        member = Member(ports, host="here")
        await member.join(sole=sole)
        chosen = policy or AgentPolicy(expiry=IDLE)
        agent = Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())
        self.finisher = Finisher(
            ports,
            agents=Agents(None, {FERN: agent}),
            member=member,
            policy=FinishPolicy(attempts_max=3, retry=RETRY),
        )
        self.driver = Driver(self.db, self.clock)
        await self.db.write(register_node(self.driver.node, "here", sole=False))

    async def work(self) -> None:
        """Until nothing is left to do, or the process is dead."""
        working = asyncio.ensure_future(self._work())
        dying = asyncio.ensure_future(self.dead.wait())
        await soon(asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED))
        for task in (working, dying):
            task.cancel()
        await asyncio.wait({working, dying})
        if not self.dead.is_set():
            await working

    async def _work(self) -> None:
        self.notifier.wake(Topic.FINISH)
        while await self.finisher.step() or len(self.finisher.running):
            await self.finisher.running.fewer_than(1)

    async def ends(self, session: SessionId | None = None) -> list[Finalisation]:
        return list(reversed(await self.db.read(list_finalisations(session=session))))

    async def notes(self) -> list[str]:
        return [entry.text for entry in (await self.db.read(read_memory(FERN, "ada"))).entries]

    async def close(self) -> None:
        await self.database.close()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def lives(tmp_path, clock):
    """Start processes over one folder; all are closed in the end."""
    begun: list[Life] = []

    async def start(model=None, policy=None, *, folder=tmp_path, dies_at=0, **more):
        life = Life(folder, clock, dies_at=dies_at)
        begun.append(life)
        await life.start(model or ScriptedModel(otherwise=says(ANSWER)), policy, **more)
        return life

    yield start
    for life in begun:
        await life.close()


def idle(clock: ManualClock) -> None:
    clock.advance(30 * MINUTE_MS)


# --- the incident ----------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", ["begin_finalisation", "record_finalisation", "apply_finalisation"])
async def test_a_restart_during_an_expiry_flush_makes_no_second_model_call_and_no_second_memory(
    lives, clock, committed
):
    """Hermes kept the flushed sessions in RAM: the restart between 04:00 and 04:04 flushed the same one again."""
    model = ScriptedModel(otherwise=says(ANSWER))
    first = await lives(model)
    session = await first.driver.chat("my cat is called Byron")
    idle(clock)
    first.dies_after = committed
    await first.work()
    assert first.dead.is_set()
    second = await lives(model, name="b")
    await second.work()
    third = await lives(model, name="c")
    clock.advance(FinishPolicy().look_every_ms)
    await third.work()
    assert (len(model.asked), await third.notes()) == (1, [CAT])
    (end,) = await third.ends(session)
    assert (end.outcome, end.cause, (await third.db.read(read_session(session))).state) == (
        "done",
        "idle",
        SessionState.CLOSED,
    )
    assert len(await third.db.read(list_memory_operations(FERN, "ada"))) == 1


async def test_wherever_the_process_dies_the_answer_is_asked_for_once_and_written_once(lives, tmp_path, clock):
    """Death before every single statement. Only between the answer and its storing it costs one more call (D24)."""
    model = ScriptedModel(otherwise=says(ANSWER))
    origin = tmp_path / "origin"
    origin.mkdir()
    before = await lives(model, folder=origin)
    session = await before.driver.chat("my cat is called Byron")
    await before.close()
    idle(clock)
    dies_at, deaths, twice = 1, 0, []
    while deaths == dies_at - 1:
        folder = tmp_path / f"{dies_at}"
        folder.mkdir()
        shutil.copy(origin / "store.db", folder / "store.db")
        model.asked.clear()
        first = await lives(model, folder=folder)
        opened = len(first.statements)
        first.dies_at = opened + dies_at
        await first.work()
        deaths += first.dead.is_set()
        last = f"{first.running} at {first.statements[-1]}"
        second = await lives(model, folder=folder, name="b")
        stored = [end for end in await second.ends() if end.answer]
        asked = len(model.asked)
        await second.work()
        (end,) = await second.ends(session)
        assert (end.outcome, await second.notes()) == ("done", [CAT]), last
        assert len(await second.db.read(list_memory_operations(FERN, "ada"))) == 1, last
        assert (await second.db.read(read_session(session))).state is SessionState.CLOSED, last
        if stored:
            assert len(model.asked) == asked, f"asked again after the answer was stored: {last}"
        if len(model.asked) > 1:
            twice.append(last)
        await first.close()
        await second.close()
        dies_at += 1
    assert deaths > 30
    assert {last.split(" at ")[0] for last in twice} == {"record_finalisation"}


# --- expiry ----------------------------------------------------------------------------------------


async def test_an_idle_session_is_extracted_from_and_closed(lives, clock, caplog):
    life = await lives(PracticeModel())
    session = await life.driver.chat("My cat is called Byron", "what time is it?")
    clock.advance(30 * MINUTE_MS - 1)
    await life.work()
    assert await life.ends() == []
    clock.advance(FinishPolicy().look_every_ms)
    with caplog.at_level(logging.INFO, "holdfast"):
        await life.work()
    assert await life.notes() == ["My cat is called Byron"]
    (end,) = await life.ends(session)
    assert (end.outcome, end.model, end.attempts) == ("done", "practice", 1)
    told = [line for line in caplog.records if line.getMessage() == "finish.done"]
    assert [(line.fields["outcome"], line.fields["applied"]) for line in told] == [("done", 1)]
    assert "Byron" not in caplog.text + str([line.__dict__ for line in caplog.records])
    assert (await life.driver.talk("hello")).session != session


async def test_the_day_ends_at_its_local_hour(lives, clock):
    policy = AgentPolicy(expiry=ExpiryPolicy(daily_at="04:00", time_zone="Europe/Berlin"))
    life = await lives(policy=policy)
    session = await life.driver.chat("one")  # 2023-11-14 23:13:20 in Berlin
    clock.advance((4 * 60 + 46) * MINUTE_MS)
    await life.work()
    assert await life.ends() == []
    clock.advance(MINUTE_MS)
    await life.work()
    assert [(end.session, end.cause) for end in await life.ends()] == [(session, "daily")]


async def test_without_expiry_or_with_an_agent_that_is_gone_nothing_expires(lives, clock):
    life = await lives(policy=AgentPolicy())
    await life.driver.chat("one")
    await life.db.write(record_turn(record("k", agent="gone", session="old")))
    clock.advance(10**9)
    await life.work()
    assert await life.ends() == []


@pytest.mark.parametrize("what", ["undone", "nothing since", "no conversation"])
async def test_without_text_to_extract_no_model_is_asked_and_nothing_is_written(lives, clock, what):
    model = ScriptedModel(otherwise=says(ANSWER))
    life = await lives(model)
    if what == "no conversation":
        await life.db.write(record_turn(record("k", purpose="subagent")))
    else:
        await life.driver.chat("one")
    if what == "undone":
        await life.driver.command("/undo")
    if what == "nothing since":
        idle(clock)
        await life.work()
        await life.driver.command("/new")
        model.asked.clear()
        (first,) = await life.ends()
        await life.driver.command(f"/resume {first.session}")
    idle(clock)
    written = await life.notes()
    await life.work()
    assert ([end.outcome for end in await life.ends()][-1], model.asked) == ("nothing", [])
    assert (await life.notes(), await life.driver.rows("select 1 from session where state <> 'closed'")) == (
        written,
        [],
    )


async def test_new_is_extracted_from_without_waiting_for_expiry(lives):
    life = await lives(policy=AgentPolicy())
    await life.driver.chat("my cat is called Byron")
    await life.driver.command("/new")
    await life.work()
    assert await life.notes() == [CAT]


async def test_many_sessions_that_expire_together_are_all_ended(lives, clock):
    model = ScriptedModel(otherwise=says('{"changes": []}'))
    life = await lives(model)
    for n in range(130):
        await life.db.write(record_turn(record("k", session=f"s{n:03d}")))
    idle(clock)
    await life.work()
    assert len([end for end in await life.db.read(list_finalisations(limit=999)) if end.outcome == "done"]) == 130
    assert len(model.asked) == 130


# --- the model -------------------------------------------------------------------------------------


async def test_extraction_is_a_temporary_run_that_knows_how_full_memory_is(lives, clock):
    """No session, no cursor, no tool: only the parent's memory is written (R16, R32)."""
    model = ScriptedModel(otherwise=says(ANSWER))
    policy = AgentPolicy(expiry=IDLE, notes=Capacity(memory_chars=100))
    life = await lives(model, policy)
    full = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text="x" * 95)
    await life.db.write(apply_memory(MemoryBatch(agent=FERN, subject="ada", origin="o", changes=(full,))))
    await life.driver.chat("my cat is called Byron")
    sessions = await life.driver.rows("select id from session")
    idle(clock)
    await life.work()
    (asked,) = model.asked
    assert (asked.task, asked.tools) == (ModelTask.EXTRACT, ())
    assert '"memory" uses 95 of 100 characters (95 %). CONSOLIDATE' in asked.messages[0].content
    assert "my cat is called Byron" in asked.messages[1].content
    assert await life.driver.rows("select id from session") == sessions
    assert await life.driver.rows("select stream from cursor") == []


@pytest.mark.parametrize("move", [raises(RuntimeError("no")), says("I would rather not"), says("{" * 50_000)])
async def test_a_model_that_fails_is_asked_a_few_times_and_then_the_end_has_failed_in_sight(lives, clock, move):
    model = ScriptedModel(move, move, move, otherwise=says(ANSWER))
    life = await lives(model)
    session = await life.driver.chat("my cat is called Byron")
    idle(clock)
    waits = []
    for attempt in (1, 2):
        await life.work()
        (end,) = await life.ends()
        assert (end.outcome, end.attempts, end.answer, len(model.asked)) == ("running", attempt, b"", attempt)
        waits.append(end.due_at - clock.now())
        clock.jump_to(end.due_at)
    assert 0 < waits[0] < waits[1]
    await life.work()
    (end,) = await life.ends()
    assert (end.outcome, bool(end.reason), await life.notes()) == ("failed", True, [])
    assert (await life.db.read(read_session(session))).state is SessionState.CLOSED
    assert len(await life.db.read(list_entries(session))) == 2
    await life.db.write(retry_finalisation(session, 1))
    await life.work()
    assert ((await life.ends())[0].outcome, await life.notes(), len(model.asked)) == ("done", [CAT], 4)


async def test_a_finalisation_that_kills_its_workers_is_given_up_without_asking_the_model(lives, clock):
    model = ScriptedModel(otherwise=says(ANSWER))
    life = await lives(model, policy=AgentPolicy())
    await life.driver.chat("one")
    await life.driver.command("/new")
    for n in range(3):
        dying = NodeId(f"dying_{n}")
        await life.db.write(register_node(dying, "there", sole=False))
        assert await life.db.write(claim_finalisation(dying)) is not None
        await life.db.write(retire_node(dying))
    await life.work()
    (end,) = await life.ends()
    assert (end.outcome, end.reason, model.asked) == ("failed", "the process died at every attempt", [])


async def test_a_fault_of_ours_puts_one_end_off_and_lets_the_others_go_on(lives, clock, monkeypatch, caplog):
    life = await lives()
    first = await life.driver.chat("one", chat="a")
    second = await life.driver.chat("two", chat="b")
    idle(clock)
    read = verb_on(life.db, read_excerpt, reads=True)

    async def broken(held):
        if held.session == first:
            raise RuntimeError("a bug")
        return await read(held)

    replace_verb(monkeypatch, life.db, read_excerpt, broken)
    await life.work()
    assert [line.fields["code"] for line in caplog.records if line.getMessage() == "loop.failed"] == ["RuntimeError"]
    outcomes = {end.session: (end.outcome, end.reason) for end in await life.ends()}
    assert outcomes == {first: ("running", "RuntimeError"), second: ("done", "")}
    monkeypatch.undo()
    clock.advance(60_000)
    await life.work()
    assert {end.outcome for end in await life.ends()} == {"done"}


# --- messages and deletions while the model thinks -------------------------------------------------


async def test_a_message_while_the_model_thinks_goes_on_in_the_same_session(lives, clock):
    gate = Gate()
    model = ScriptedModel(stands_at(gate, says(ANSWER)), otherwise=says('{"changes": []}'))
    life = await lives(model)
    session = await life.driver.chat("my cat is called Byron")
    idle(clock)
    working = asyncio.ensure_future(life.work())
    await gate.arrival()
    turn = await life.driver.talk("and I live in Kiel")
    gate.open()
    await soon(working)
    found = await life.db.read(read_session(session))
    assert (turn.session, found.state, found.epoch, await life.notes()) == (session, SessionState.OPEN, 2, [CAT])
    idle(clock)
    await life.work()
    assert [(end.epoch, end.from_seq, end.through_seq, end.outcome) for end in await life.ends()] == [
        (1, 1, 2, "done"),
        (2, 3, 4, "done"),
    ]
    assert "Byron" not in model.asked[1].messages[1].content.split("Conversation:")[1]


async def test_a_session_that_is_deleted_while_the_model_thinks_leaves_nothing_in_memory(lives, clock, caplog):
    gate = Gate()
    life = await lives(ScriptedModel(stands_at(gate, says(ANSWER))))
    await life.driver.chat("my cat is called Byron")
    idle(clock)
    working = asyncio.ensure_future(life.work())
    await gate.arrival()
    await life.driver.delete()
    gate.open()
    with caplog.at_level(logging.INFO, "holdfast"):
        await soon(working)
    assert (await life.notes(), await life.ends()) == ([], [])
    assert "finish.lost" in [line.getMessage() for line in caplog.records]


async def test_a_finisher_that_slept_through_its_lease_writes_nothing(lives, clock):
    gate = Gate()
    slow = ScriptedModel(stands_at(gate, says(ANSWER.replace("Byron", "Shelley"))))
    first = await lives(slow)
    await first.driver.chat("my cat is called Byron")
    idle(clock)
    sleeping = asyncio.ensure_future(first.work())
    await gate.arrival()
    second = await lives(name="b")  # takes over the file, as a restart does
    await second.work()
    gate.open()
    await soon(sleeping)
    assert await second.notes() == [CAT]
    assert len(await second.db.read(list_memory_operations(FERN, "ada"))) == 1


async def test_two_processes_share_the_work_and_never_do_it_twice(lives, clock):
    model = ScriptedModel(otherwise=says('{"changes": []}'))
    first, second = await lives(model, sole=False), await lives(model, name="b", sole=False)
    for n in range(12):
        await first.db.write(record_turn(record("k", session=f"s{n:02d}")))
    idle(clock)
    await asyncio.gather(first.work(), second.work())
    assert len(model.asked) == 12
    assert {end.outcome for end in await first.ends()} == {"done"}
