"""A runtime opens, closes and runs beside others: in bounded time, without polling, and without losing a message."""

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from holdfast.inbox.mailbox_sql import release_claim
from holdfast.kernel.errors import StoreFull, StoreOwned, StoreUnavailable
from holdfast.kernel.ids import MessageId
from holdfast.kernel.machine import AsyncTasks
from holdfast.memory.provider import Providers
from holdfast.runtime import app as app_module
from holdfast.runtime.app import DATABASE, is_served, open_runtime
from holdfast.runtime.assembly import assemble
from holdfast.runtime.health import SILENT_MS
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.supervisor import GRACE_MS, LEAVE_MS, TemporaryLease
from holdfast.sessions.history_sql import list_operations
from holdfast.store.membership import LOOK_EVERY_MS, Member
from holdfast.store.node_sql import register_node, retire_node
from holdfast.store.upkeep_sql import prove_write
from holdfast.testing import ManualClock, SeededEntropy, SimClock, SimLoop, SimNode, SimTasks
from holdfast.testing.inline_database import InlineDatabase
from holdfast.turns.agents import Agents
from holdfast.turns.work_sql import claim_work, end_turn
from tests.support.fakes import (
    Gate,
    Process,
    ScriptedModel,
    agents,
    happened,
    policy,
    raises,
    said,
    says,
    soon,
    stands_at,
    states,
    the_session,
)
from tests.support.ports import VerbMethods, make_ports, replace_verb, verb_on


class Simulation:
    """Real runtimes on a loop whose clock jumps: hours cost nothing, and every store call is counted."""

    def __init__(self, folder: Path) -> None:
        self.loop = SimLoop(1)
        self.clock = SimClock(self.loop)
        self.folder = folder
        self.verbs: Counter[str] = Counter()

    async def open(self, who: Agents, *, serve: bool = True, name: str = "n") -> Runtime:
        node = SimNode(self.loop, name)
        database = InlineDatabase(self.folder / DATABASE, self.clock, synchronous="off", before_statement=self._count)
        node.on_death(database.crash)
        runtime = assemble(
            make_ports(
                database,
                clock=self.clock,
                entropy=SeededEntropy(f"1/{name}"),
                tasks=SimTasks(self.loop, node),
            ),
            who,
            serve=serve,
        )
        return await runtime.start()

    def _count(self, verb: str, _sql: str) -> None:
        self.verbs[verb] += 1

    async def pass_time(self, seconds: float) -> None:
        """Let the clock jump, timer by timer, until so much has passed."""
        passed = asyncio.Event()
        self.loop.call_later(seconds, passed.set)
        await passed.wait()


@pytest.fixture
def simulation(tmp_path):
    made = Simulation(tmp_path)
    with made.loop:
        yield made


# --- closing ---------------------------------------------------------------------------------------


def test_closing_is_bounded_even_when_the_model_never_answers(simulation: Simulation):
    async def scenario() -> tuple[float, MessageId]:
        runtime = await simulation.open(agents(ScriptedModel(stands_at(gate := Gate(), says("never")))))
        message = await runtime.send("c", "hello")
        await gate.reached.wait()
        began = simulation.loop.time()
        await runtime.close()
        assert gate.left.is_set() or not gate.opened.is_set()
        return simulation.loop.time() - began, message

    took_s, message = simulation.loop.run_until_complete(scenario())
    assert took_s <= (GRACE_MS + LEAVE_MS) / 1000

    async def reopened() -> str:
        runtime = await simulation.open(agents(ScriptedModel()), name="m")
        return await runtime.reply_to(message)

    assert simulation.loop.run_until_complete(reopened()) == "re: hello", "what was unfinished goes on"


def test_closing_lets_a_running_turn_end_within_the_grace(simulation: Simulation):
    async def scenario() -> str:
        runtime = await simulation.open(agents(ScriptedModel(stands_at(gate := Gate(), says("in time")))))
        message = await runtime.send("c", "hello")
        await gate.reached.wait()
        simulation.loop.call_later(GRACE_MS / 2000, gate.open)
        await runtime.close()
        visiting = await simulation.open(agents(ScriptedModel()), serve=False, name="m")
        trace = await visiting.trace(message)
        assert trace.reply is not None
        return trace.reply.text

    assert simulation.loop.run_until_complete(scenario()) == "in time"


def test_closing_during_a_compression_leaves_no_task_and_no_open_operation(simulation: Simulation):
    async def scenario() -> tuple[str | None, bool]:
        model = ScriptedModel(summary=stands_at(gate := Gate(), says("never")))
        runtime = await simulation.open(agents(model))
        for text in ("one", "two", "three"):
            await runtime.ask("c", text)
        session = (await runtime.sessions(chat="c"))[0].id
        await runtime.begin_compression(session)
        await gate.reached.wait()
        await runtime.close()
        await simulation.pass_time(1)
        visiting = await simulation.open(agents(ScriptedModel()), serve=False, name="m")
        (operation,) = await visiting.db.read(list_operations(session=session))
        return operation.outcome, gate.left.is_set()

    assert simulation.loop.run_until_complete(scenario()) == ("abandoned", True)


async def test_a_closed_runtime_answers_that_it_is_closed(tmp_path):
    runtime = await open_runtime(tmp_path, agents=agents(ScriptedModel()))
    await runtime.close()
    with pytest.raises(StoreUnavailable):
        await runtime.send("c", "hello")
    await runtime.close()


async def test_a_wait_for_a_reply_ends_when_the_runtime_closes(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("x")))
    process = await Process.start(tmp_path, agents(model))
    message = await process.runtime.send("c", "hello")
    await gate.arrival()
    waiting = asyncio.ensure_future(process.runtime.reply_to(message))
    gate.open()
    await process.runtime.close()
    assert await soon(waiting) == "x"


async def test_a_part_that_cannot_be_closed_does_not_keep_the_folder(tmp_path, monkeypatch):
    """Providers, models and tools may be anybody's code."""

    async def close(_self):
        raise ZeroDivisionError

    runtime = await open_runtime(tmp_path, agents=agents(ScriptedModel()))
    with monkeypatch.context() as broken:
        broken.setattr(Providers, "close", close)
        with pytest.raises(ZeroDivisionError):
            await runtime.close()
    assert not is_served(tmp_path)
    async with await open_runtime(tmp_path, agents=agents(ScriptedModel())) as again:
        assert await soon(again.ask("c", "hello")) == "re: hello"


async def test_a_visit_goes_on_after_the_store_was_away(tmp_path, monkeypatch):
    """Its operation would be taken for a dead process's, and abandoned."""
    async with await open_runtime(tmp_path, agents=agents(ScriptedModel()), serve=False) as runtime:
        renewed = asyncio.Event()

        class Away:
            tries = 0

            async def renew_node(self, _node):
                self.tries += 1
                if self.tries == 1:
                    raise StoreUnavailable("the store did not answer")
                renewed.set()

            retire_node = staticmethod(verb_on(runtime.db, retire_node))
            register_node = staticmethod(verb_on(runtime.db, register_node))

        class Hasty(AsyncTasks):
            async def sleep(self, delay_ms: float) -> None:
                await asyncio.sleep(0)

        ports = make_ports(VerbMethods(Away()), tasks=Hasty())
        visit = TemporaryLease(ports, Member(ports, host="here"))
        await visit.begin()
        await soon(renewed.wait())
        await visit.end()


# --- opening again ---------------------------------------------------------------------------------


async def test_a_restart_voids_old_claims_at_once(tmp_path):
    """The clock stands still, so no lease ever lapses: only the new owner's arrival can free the mailbox."""
    clock = ManualClock()
    before = await Process.start(tmp_path, agents(ScriptedModel(stands_at(gate := Gate(), says("x")))), clock=clock)
    message = await before.runtime.send("c", "hello")
    await gate.arrival()
    await before.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel()), clock=clock) as runtime:
        assert await soon(runtime.reply_to(message)) == "re: hello"


async def test_a_worker_that_was_replaced_changes_nothing_when_it_wakes_up(tmp_path, monkeypatch):
    sleeper = await Process.start(tmp_path, agents(ScriptedModel(stands_at(gate := Gate(), says("stale")))))
    message = await sleeper.runtime.send("c", "hello")
    await gate.arrival()
    real, gave_up = verb_on(sleeper.runtime.db, release_claim), asyncio.Event()

    async def releasing(claim, *, retry_in_ms=0):
        await real(claim, retry_in_ms=retry_in_ms)
        gave_up.set()

    replace_verb(monkeypatch, sleeper.runtime.db, release_claim, releasing)
    fresh = ScriptedModel(stands_at(thinking := Gate(), says("fresh")))
    async with await Process.start(tmp_path, agents(fresh)) as runtime:
        await thinking.arrival()  # the younger worker is in the middle of the same turn
        gate.open()
        await soon(gave_up.wait())
        thinking.open()
        assert await soon(runtime.reply_to(message)) == "fresh"
        trace = await runtime.trace(message)
        assert (trace.attempt, await said(runtime, trace.session)) == (2, ["hello"])
    await sleeper.kill()


async def test_a_second_runtime_on_a_folder_is_refused_and_the_first_goes_on(tmp_path):
    first = await open_runtime(tmp_path, agents=agents(ScriptedModel()))
    assert is_served(tmp_path)
    with pytest.raises(StoreOwned):
        await open_runtime(tmp_path, agents=agents(ScriptedModel()))
    assert await soon(first.ask("c", "hello")) == "re: hello"
    await first.close()
    assert not is_served(tmp_path)
    again = await open_runtime(tmp_path, agents=agents(ScriptedModel()))
    assert await said(again, await the_session(again)) == ["hello"]
    await again.close()


async def test_a_runtime_that_cannot_start_gives_the_folder_back(tmp_path, monkeypatch):
    def full(*_, **__):
        yield from ()
        raise StoreFull("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(register_node, "script", full)
        with pytest.raises(StoreFull):
            await open_runtime(tmp_path, agents=agents(ScriptedModel()))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-")]
    async with await open_runtime(tmp_path, agents=agents(ScriptedModel())) as runtime:
        assert await soon(runtime.ask("c", "hello")) == "re: hello"


# --- several processes -----------------------------------------------------------------------------


async def test_a_process_that_does_not_serve_can_send_and_read(tmp_path):
    model = ScriptedModel(stands_at(gate := Gate(), says("first")))
    async with (
        await open_runtime(tmp_path, agents=agents(model)) as serving,
        await open_runtime(tmp_path, agents=agents(ScriptedModel()), serve=False) as visiting,
    ):
        message = await visiting.send("c", "hello")
        await gate.arrival()
        assert (await visiting.trace(message)).state.value == "in_turn"
        gate.open()
        assert await soon(visiting.reply_to(message)) == "first"
        session = await the_session(serving)
        assert await said(visiting, session) == ["hello"]
        assert [one.id for one in await visiting.sessions(chat="c")] == [session]


def test_mail_accepted_by_another_process_is_noticed_within_about_a_second(simulation: Simulation):
    """Only the poll of the node can tell the worker."""

    async def scenario() -> float:
        model = ScriptedModel()
        await simulation.open(agents(model))
        visiting = await simulation.open(agents(ScriptedModel()), serve=False, name="v")
        await simulation.pass_time(10.3)
        began = simulation.loop.time()
        message = await visiting.send("c", "hello")
        while not model.requests:
            await simulation.pass_time(0.01)
        took = simulation.loop.time() - began
        assert await visiting.reply_to(message) == "re: hello"
        return took

    assert simulation.loop.run_until_complete(scenario()) <= LOOK_EVERY_MS / 1000 + 0.1


def test_a_stream_in_a_process_that_does_not_serve_gets_the_whole_reply(simulation: Simulation):
    async def scenario() -> list[str]:
        await simulation.open(agents(ScriptedModel()))
        visiting = await simulation.open(agents(ScriptedModel()), serve=False, name="v")
        return [delta.text async for delta in visiting.stream("c", "hello")]

    assert simulation.loop.run_until_complete(scenario()) == ["re: hello"]


# --- resting ---------------------------------------------------------------------------------------


def test_an_idle_runtime_does_not_spin(simulation: Simulation):
    async def scenario() -> tuple[int, int]:
        runtime = await simulation.open(agents(ScriptedModel()))
        await runtime.ask("c", "hello")
        await simulation.pass_time(5)
        simulation.verbs.clear()
        steps = simulation.loop.steps
        await simulation.pass_time(600)
        return sum(simulation.verbs.values()), simulation.loop.steps - steps

    statements, steps = simulation.loop.run_until_complete(scenario())
    calls = statements - simulation.verbs["batch"]
    assert calls <= 6 * 600, simulation.verbs
    assert steps <= 60 * 600


def test_a_mailbox_that_is_ready_and_cannot_be_claimed_does_not_make_the_worker_spin(
    simulation: Simulation, monkeypatch
):
    """As while this node is taken for dead: the store shows mail and gives no claim."""

    async def scenario() -> int:
        runtime = await simulation.open(agents(ScriptedModel()))

        async def none(*_, **__):
            simulation.verbs["claims"] += 1
            return ()

        replace_verb(monkeypatch, runtime.db, claim_work, none)
        await runtime.send("c", "hello")
        await simulation.pass_time(10)
        return simulation.verbs["claims"]

    assert 1 <= simulation.loop.run_until_complete(scenario()) <= 10 * 60


def test_a_store_that_was_away_for_long_is_used_soon_after_it_is_back(simulation: Simulation, monkeypatch):
    async def scenario() -> float:
        runtime = await simulation.open(agents(ScriptedModel()))
        real = verb_on(runtime.db, claim_work)

        async def away(*_, **__):
            raise StoreUnavailable("the store is away")

        replace_verb(monkeypatch, runtime.db, claim_work, away)
        message = await runtime.send("c", "hello")
        await simulation.pass_time(3_600)
        replace_verb(monkeypatch, runtime.db, claim_work, real)
        began = simulation.loop.time()
        assert await runtime.reply_to(message) == "re: hello"
        return simulation.loop.time() - began

    assert simulation.loop.run_until_complete(scenario()) <= 8


# --- health ----------------------------------------------------------------------------------------


def test_health_means_that_the_loops_of_this_process_are_at_work(simulation: Simulation):
    """A process whose store takes writes and whose loops stand still serves nobody."""

    async def scenario() -> None:
        runtime = await simulation.open(agents(ScriptedModel()))
        assert (await runtime.health()).ok
        for loop in runtime._supervisor._running:  # type: ignore[union-attr]
            loop.cancel()
        await simulation.pass_time((SILENT_MS - 5_000) / 1_000)
        assert (await runtime.health()).ok
        await simulation.pass_time(10)
        silent = await runtime.health()
        assert (silent.ok, silent.code, silent.proved_write_ms) == (False, "not_responding", 0)
        assert "no sign of life for 3" in str(silent.why)
        await runtime.db.write(retire_node(runtime._member.node))
        await simulation.pass_time(1.1)
        assert (await runtime.health()).why == "the process holds no lease"

    simulation.loop.run_until_complete(scenario())


def test_health_means_that_a_write_succeeded_just_now(simulation: Simulation, monkeypatch):
    async def scenario() -> None:
        runtime = await simulation.open(agents(ScriptedModel()))
        simulation.verbs.clear()
        answers = [await runtime.health() for _ in range(5)]
        assert {health.ok for health in answers} == {True}
        assert simulation.verbs["prove_write"] == 1, "one write serves everybody who asks within a second"
        await simulation.pass_time(1.1)

        async def full() -> None:
            raise StoreFull("the disk is full")

        replace_verb(monkeypatch, runtime.db, prove_write, full)
        sick = await runtime.health()
        assert (sick.ok, sick.code, sick.why) == (False, "store_full", "the disk is full")
        await simulation.pass_time(1.1)
        replace_verb(monkeypatch, runtime.db, prove_write, Gate().stand)
        stuck = await runtime.health()
        assert (stuck.ok, stuck.code) == (False, "store_unavailable")
        await simulation.pass_time(1.1)
        monkeypatch.undo()
        assert (await runtime.health()).ok

    simulation.loop.run_until_complete(scenario())


# --- what a worker does with trouble ---------------------------------------------------------------


async def test_a_claim_that_a_worker_thinks_lost_is_given_back(tmp_path, monkeypatch):
    """Otherwise a wrong `ClaimLost` would leave the mailbox taken by a living node for ever."""
    from holdfast.kernel.errors import ClaimLost

    process = await Process.start(tmp_path, agents(ScriptedModel()))
    async with process as runtime:
        real, lost = verb_on(runtime.db, end_turn), [True]

        async def ending(*args):
            if lost:
                lost.clear()
                raise ClaimLost("by mistake")
            return await real(*args)

        replace_verb(monkeypatch, runtime.db, end_turn, ending)
        assert await states(runtime, await runtime.send("c", "hello")) == ["answered"]


async def test_a_mailbox_in_trouble_delays_no_other(tmp_path):
    boom = raises(ValueError())
    model = ScriptedModel(boom, boom, boom)
    async with await Process.start(tmp_path, agents(model, policy(model_attempts_max=3))) as runtime:
        feed = runtime.events()
        await runtime.send("bad", "x")
        await happened(feed, "turn.failed")
        assert await soon(runtime.ask("good", "hello")) == "re: hello"


async def test_a_start_that_fails_closes_what_was_started_before_it(tmp_path, monkeypatch):
    closed: list[bool] = []

    class Servers:
        async def start(self) -> None: ...

        async def close(self) -> None:
            closed.append(True)

    async def fail(_member, *, sole: bool) -> None:
        raise StoreUnavailable("the store went away")

    monkeypatch.setattr(app_module, "with_servers", lambda who, _workshop: (who, (Servers(),)))
    monkeypatch.setattr(Member, "join", fail)
    with pytest.raises(StoreUnavailable):
        await open_runtime(tmp_path, agents=agents(ScriptedModel()))
    assert closed == [True]
