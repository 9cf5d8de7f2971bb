"""The Hindsight provider keeps every promise of the port, by the suite that third parties use."""

from contextlib import AsyncExitStack
from dataclasses import replace

from holdfast.kernel.ids import AgentName
from holdfast.providers.hindsight import make_hindsight
from holdfast.providers.hindsight.naming import BankTemplate
from holdfast.testing.check_provider import CHECKS, check_provider
from tests.support.hindsight_fake import FakeHindsight
from tests.support.hindsight_parcels import setup


async def test_check_provider_passes():
    async with AsyncExitStack() as stack:

        async def make():
            fake = await stack.enter_async_context(FakeHindsight())
            return make_hindsight(replace(setup(fake.url), agent=AgentName("fern"))).provider

        assert await check_provider(make, naming=BankTemplate()) == len(CHECKS)
