"""An index that was lost is filled again from the journal between deliveries: nothing that was delivered is missing
from it afterwards, however the two meet."""

from dataclasses import replace

from tests.integration.fakes import Gate
from tests.integration.memory.provider import Service, ServiceProvider
from tests.integration.memory.world import say, shelf

LOOK_ROUND_S = 16


class Indexed(ServiceProvider):
    """Its index is what the service keeps."""

    needs_rebuild = False
    gate: Gate | None = None  # where whoever fills it again stands

    async def rebuild(self, parcels):
        self._service.kept.clear()
        if self.gate is not None:
            await self.gate.stand()
        self._service.kept += [parcel async for parcel in parcels]
        self.needs_rebuild = False
        return len(self._service.kept)


class Shut(Indexed):
    """Nobody can say whether it is whole while it cannot be opened."""

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
