"""The Honcho provider keeps the promises of the port, by the suite that third parties use.

One check is left out: sessions of one chat share a Honcho session (R18), of which Honcho cannot delete a part. What
happens instead is in test_erase.py.
"""

from contextlib import AsyncExitStack
from dataclasses import replace

from holdfast.core.honcho_naming import HonchoNames
from holdfast.core.ids import AgentName
from holdfast.providers.honcho import make_honcho
from holdfast.testing.check_provider import CHECKS, an_erased_session_is_gone_and_others_stay, check_provider
from tests.honcho_server import HonchoServer
from tests.integration.honcho.kit import setup_of

POSSIBLE = tuple(check for check in CHECKS if check is not an_erased_session_is_gone_and_others_stay)


async def test_check_provider_passes():
    async with AsyncExitStack() as stack:

        async def make():
            server = await stack.enter_async_context(HonchoServer())
            server.prompt = server.lose_derivation = True
            return make_honcho(replace(setup_of({"url": server.url}), agent=AgentName("fern"))).provider

        assert await check_provider(make, naming=HonchoNames(), checks=POSSIBLE) == len(POSSIBLE)
