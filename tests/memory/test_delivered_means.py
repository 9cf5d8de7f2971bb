"""Each provider says in one sentence what `delivered` means, and that sentence is shown everywhere the state is."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.providers.files.provider import DELIVERED_MEANS as FILES
from holdfast.providers.hindsight.provider import DELIVERED_MEANS as HINDSIGHT
from holdfast.providers.honcho.provider import DELIVERED_MEANS as HONCHO
from holdfast.providers.local.provider import DELIVERED_MEANS as LOCAL
from holdfast.runtime.app import open_runtime
from tests.support.fakes import soon
from tests.support.hindsight_parcels import provider as hindsight_on
from tests.support.memory_runtimes import next_delivery, open_with_honcho, settled


async def test_a_turn_at_honcho_is_stored_and_may_not_be_derived(server, tmp_path):
    server.lose_derivation = True
    async with await open_with_honcho(server, tmp_path) as runtime:
        message = await runtime.send("c", "my cat is called Byron")
        await soon(runtime.reply_to(message))
        await settled(runtime)
        (listed,) = await runtime.deliveries()
        (traced,) = (await runtime.trace(message)).deliveries
    server.run_deriver()
    assert (listed.state, listed.means, traced.means) == ("delivered", HONCHO, HONCHO)
    assert len(server.messages()) == 2
    assert server.conclusions() == [], "which is what the sentence warns of"
    assert "derives" in HONCHO


async def test_what_is_not_delivered_means_nothing_yet(server, tmp_path):
    server.database_down = True
    async with await open_with_honcho(server, tmp_path) as runtime:
        await soon(runtime.ask("c", "hello"))
        while not any(one.reason for one in await runtime.deliveries()):
            await soon(next_delivery(runtime))
        (waiting,) = await runtime.deliveries()
    assert (waiting.state, waiting.means) == ("scheduled", None)


async def test_each_provider_has_a_sentence_of_its_own():
    assert len({FILES, HINDSIGHT, HONCHO, LOCAL}) == 4
    async with hindsight_on("http://127.0.0.1:9") as hindsight:
        assert hindsight.capabilities.delivered_means == HINDSIGHT


@pytest.mark.parametrize("arguments", [["deliveries"], ["trace", "MESSAGE"]])
async def test_the_commands_show_it_to_people_and_to_programs(tmp_path, arguments):
    async with await open_runtime(tmp_path) as runtime:
        message = await runtime.send("c", "my cat is called Byron")
        await soon(runtime.reply_to(message))
        await settled(runtime)
    named = [message if one == "MESSAGE" else one for one in arguments]

    async def run(*more: str) -> str:
        quiet = {"HOLDFAST_CONFIG": "", "NO_COLOR": "1"}
        done = await asyncio.to_thread(CliRunner(env=quiet).invoke, app, [*named, "--data", str(tmp_path), *more])
        assert done.exit_code == 0, done.output
        return done.output

    assert f"delivered at local: {LOCAL}." in await run()
    (delivery,) = json.loads((await run("--json")).splitlines()[0])["deliveries"]
    assert delivery["means"] == LOCAL
