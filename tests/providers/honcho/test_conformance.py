"""The Honcho provider keeps the promises of the port, by the suite that third parties use."""

from contextlib import AsyncExitStack
from dataclasses import replace

from holdfast.kernel.ids import AgentName
from holdfast.providers.honcho import make_honcho
from holdfast.providers.honcho.naming import HonchoNames
from holdfast.testing.check_provider import CHECKS, check_provider
from tests.support.honcho_kit import setup_of
from tests.support.honcho_server import HonchoServer


async def test_check_provider_passes():
    async with AsyncExitStack() as stack:

        async def make():
            server = await stack.enter_async_context(HonchoServer())
            server.prompt = server.lose_derivation = True
            return make_honcho(replace(setup_of({"url": server.url}), agent=AgentName("fern"))).provider

        assert await check_provider(make, naming=HonchoNames()) == len(CHECKS)
