"""The whole runtime on PostgreSQL: the same conversation, any number of processes on one database."""

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.kernel.errors import ConfigInvalid, StoreReadOnly
from holdfast.runtime.app import open_runtime


async def test_a_conversation_goes_on_in_another_process(address):
    async with await open_runtime(address) as runtime:
        await runtime.ask("ada", "my cat is called Byron", id="1")
    async with await open_runtime(address) as runtime:
        assert "Byron" in await runtime.ask("ada", "what is my cat called?", id="2")
        [session] = await runtime.sessions(agent="main", chat="ada")
    assert session.turns == 2


async def test_two_runtimes_share_the_work_and_answer_everything_once(address):
    async with await open_runtime(address) as one, await open_runtime(address) as two:
        asked = [(one, two)[n % 2].ask(f"chat{n % 4}", f"message {n}", id=str(n)) for n in range(24)]
        replies = await asyncio.gather(*asked)
        sessions = await one.sessions(agent="main")
    assert all(f"message {n}" in reply for n, reply in enumerate(replies))
    assert sorted(session.turns for session in sessions) == [6, 6, 6, 6]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
async def test_every_way_to_write_the_address_opens_the_same_database(address, scheme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with await open_runtime(address) as runtime:
        await runtime.ask("ada", "hello", id="1")
    async with await open_runtime(address.replace("postgresql", scheme, 1), serve=False) as runtime:
        assert len(await runtime.sessions(agent="main", chat="ada")) == 1
    assert list(tmp_path.iterdir()) == [], "and no folder of that name"


@pytest.mark.parametrize("option", ["nonsense=1", "sslmode=nonsense", "target_session_attrs=nonsense"])
async def test_an_option_that_does_not_exist_is_the_operators_to_correct(address, option):
    with pytest.raises(ConfigInvalid):
        await open_runtime(f"{address}&{option}")


async def test_a_database_that_cannot_be_written_is_spoken_of_as_a_database(address):
    async with await open_runtime(address):
        pass
    admin = await asyncpg.connect(address)
    name = await admin.fetchval("select current_database()")
    await admin.execute(f"alter database {name} set default_transaction_read_only = on")
    await admin.close()
    with pytest.raises(StoreReadOnly) as caught:
        await open_runtime(address)
    assert "database" in caught.value.hint
    assert "folder" not in caught.value.hint
    assert "--data" not in caught.value.hint
