"""An index that was lost while no process ran is refilled by the next process, before the first message."""

from pathlib import Path

import holdfast
from tests.support.fakes import soon


async def test_a_lost_index_is_filled_again_at_the_next_start(tmp_path):
    async with holdfast.open(tmp_path) as runtime:
        await runtime.ask("ada", "My cat is called Byron.", id="1", agent="reed")
        await soon(_delivered(runtime))
    for file in (tmp_path / "agents" / "reed" / "local").iterdir():
        file.unlink()
    async with holdfast.open(tmp_path) as runtime:
        feed = runtime.events()
        while not is_there(tmp_path):  # no query happens until it is there
            await soon(feed.next_within(100))
        while not (await runtime.recall("What is the cat called?", chat="ada", agent="reed")).memories:
            await soon(feed.next_within(100))
        feed.close()


def is_there(folder: Path) -> bool:
    return (folder / "agents" / "reed" / "local" / "recall.db").exists()


async def _delivered(runtime) -> None:
    while any(one.state != "delivered" for one in await runtime.deliveries()) or not await runtime.deliveries():
        pass  # each look reads the store, while the others go on
