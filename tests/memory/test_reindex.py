"""A lost index is refilled from the journal between deliveries, and no delivered item is missing afterwards, in any
order of the two.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.kernel.ids import AgentName, Provider
from holdfast.memory.lane import DispatchPolicy, LaneKey
from holdfast.memory.provider import Indexed as IndexedProvider
from holdfast.memory.reindex import refill
from tests.support.fakes import Gate, soon
from tests.support.memory_provider import Service, ServiceProvider
from tests.support.memory_runtimes import settled
from tests.support.memory_world import say, shelf

LOOK_ROUND_S = 16


class Indexed(ServiceProvider):
    """Its index is what the service keeps."""

    needs_rebuild = False
    gate: Gate | None = None  # where the rebuild waits

    async def rebuild(self, parcels):
        self._service.kept.clear()
        if self.gate is not None:
            await self.gate.stand()
        self._service.kept += [parcel async for parcel in parcels]
        self.needs_rebuild = False
        return len(self._service.kept)


class Shut(Indexed):
    """Whether the index is complete is unknown while it cannot be opened."""

    is_open = False

    async def healthy(self):
        self.needs_rebuild = self.is_open and not self._service.kept
        return None if self.is_open else "the disk is full"


def test_what_is_delivered_and_not_yet_settled_is_not_missing_from_an_index_that_is_filled_again(world):
    async def scenario():
        service, gate = Service(), Gate()
        provider = Indexed(service)
        runtime = await world.open(shelf=replace(shelf(service), provider=provider))
        await say(runtime, "one")
        await world.pass_time(1)
        service.hold = gate
        await say(runtime, "two")
        await gate.arrival()
        provider.needs_rebuild = True
        await world.pass_time(LOOK_ROUND_S)
        gate.open()
        await world.pass_time(2 * LOOK_ROUND_S)
        await runtime.close()
        return service.words(), provider.needs_rebuild

    assert world.run(scenario()) == (["one", "two"], False)


def test_while_an_index_is_filled_again_deliveries_wait(world):
    async def scenario():
        service = Service()
        provider, gate = Indexed(service), Gate()
        provider.gate = gate
        runtime = await world.open(shelf=replace(shelf(service), provider=provider))
        await say(runtime, "one")
        await world.pass_time(1)
        provider.needs_rebuild, sent = True, service.sent()
        await gate.arrival()
        await say(runtime, "two")
        await world.pass_time(1)
        assert service.sent() == sent
        gate.open()
        await world.pass_time(1)
        await runtime.close()
        return service.words()

    assert world.run(scenario()) == ["one", "two"]


def test_an_index_that_could_not_be_looked_into_is_looked_into_again(world):
    async def scenario():
        service = Service()
        runtime = await world.open(shelf=shelf(service))
        await say(runtime, "one")
        await world.pass_time(1)
        await runtime.close()
        service.kept.clear()
        provider = Shut(service)
        runtime = await world.open(shelf=replace(shelf(service), provider=provider))
        await world.pass_time(LOOK_ROUND_S)
        provider.is_open = True
        await world.pass_time(2 * LOOK_ROUND_S)
        await runtime.close()
        return service.words()

    assert world.run(scenario()) == ["one"]


class Unwell(Indexed):
    """The first question about what it has gets no answer, or ends in an error of its own code."""

    asked = 0

    def __init__(self, service, *, stalls):
        super().__init__(service)
        self._stalls = stalls

    async def landed(self, parcel):
        self.asked += 1
        if self.asked > 1:
            return await super().landed(parcel)
        if self._stalls:
            await asyncio.Event().wait()
        raise RuntimeError("a fault in the provider's code")


@pytest.mark.parametrize("stalls", [True, False])
def test_an_index_that_did_not_answer_is_filled_later_and_holds_up_no_delivery_for_ever(world, caplog, stalls):
    async def scenario():
        service = Service()
        provider = Unwell(service, stalls=stalls)
        runtime = await world.open(shelf=replace(shelf(service), provider=provider))
        await say(runtime, "one")
        await world.pass_time(1)
        provider.needs_rebuild = True
        await world.pass_time(LOOK_ROUND_S)
        await say(runtime, "two")
        await world.pass_time(DispatchPolicy().call_wait_ms / 1000 + 2 * LOOK_ROUND_S)
        await runtime.close()
        return service.words(), provider.needs_rebuild

    assert world.run(scenario()) == (["one", "two"], False)
    failed = [record.fields["code"] for record in caplog.records if record.getMessage() == "loop.failed"]
    assert failed == ["provider_failed"]


# --- the real index ---------------------------------------------------------------------------------

LOCAL = LaneKey(AgentName("main"), Provider("local"))


async def test_a_new_index_that_has_everything_is_not_called_lost(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        for text in ("My cat is called Byron.", "She likes tea."):
            await soon(runtime.ask("home", text))
        await settled(runtime)
        assert await refill(runtime.db, runtime._providers, LOCAL, DispatchPolicy()) is None
        local = runtime._providers.get(LOCAL)
        assert isinstance(local, IndexedProvider)
        assert not local.needs_rebuild, "not every turn checks again"
        assert (await runtime.recall("the cat", chat="home")).memories


async def test_an_index_that_began_with_the_first_delivery_is_never_filled_again(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        await soon(runtime.ask("home", "My cat is called Byron."))
        await settled(runtime)
        local = runtime._providers.get(LOCAL)
        assert isinstance(local, IndexedProvider)
        assert not local.needs_rebuild
        assert (await runtime.recall("the cat", chat="home")).memories


async def test_an_index_that_is_lost_while_no_process_runs_is_not_taken_for_a_new_one(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        await soon(runtime.ask("home", "My cat is called Byron."))
        await settled(runtime)
    for found in index_files(tmp_path):
        found.unlink()
    async with holdfast.open(tmp_path) as runtime:
        await soon(runtime.ask("den", "She likes tea."))
        await settled(runtime)
        await refill(runtime.db, runtime._providers, LOCAL, DispatchPolicy())
        assert (await runtime.recall("the cat", chat="home")).memories


async def test_an_index_that_is_gone_is_filled_and_that_is_said(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        await soon(runtime.ask("home", "My cat is called Byron."))
        await settled(runtime)
    for found in index_files(tmp_path):
        found.unlink()
    async with holdfast.open(tmp_path, serve=False) as runtime:
        assert await refill(runtime.db, runtime._providers, LOCAL, DispatchPolicy()) == 1
        assert await refill(runtime.db, runtime._providers, LOCAL, DispatchPolicy()) is None
        assert (await runtime.recall("the cat", chat="home")).memories


def index_files(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file() and "local" in path.relative_to(folder).as_posix()]
    assert found
    return found
