"""One conversation flows to Hindsight, Honcho, the local store and the memory files at the same time, each at its own
pace, through the vendors' own clients over sockets. A loss at one of them delays no other.
"""

import pytest

import holdfast
from holdfast.turns.policy import AgentPolicy
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer
from tests.support.memory_runtimes import finished, settled

NOTE = 'use memory {"action": "add", "content": "Deploys happen on Fridays."}'


@pytest.fixture
async def servers():
    async with FakeHindsight() as hindsight, HonchoServer() as honcho:
        yield hindsight, honcho


def policy(hindsight, honcho):
    return AgentPolicy(
        memory={
            "local": {},
            "files": {},
            "hindsight": {"url": hindsight.url, "every_turns": 2},
            "honcho": {"url": honcho.url},
        }
    )


async def test_every_turn_and_every_note_reaches_all_of_them_once(tmp_path, servers):
    hindsight, honcho = servers
    async with holdfast.open(tmp_path, policy=policy(hindsight, honcho)) as runtime:
        for text in ("My cat is called Byron.", "I like tea.", NOTE, "/new", "My dog is called Ada."):
            await runtime.ask("home", text)
        await runtime.ask("home", "/new")
        await finished(runtime)
        await settled(runtime)
        found = await runtime.deliveries(limit=1_000)
        assert {one.provider for one in found} == {"local", "files", "hindsight", "honcho"}
        assert {one.state for one in found} == {"delivered"}
        assert all(one.receipt for one in found)
        recalled = await runtime.recall("what is the cat called?", chat="home")
    assert any("Byron" in one.text for one in recalled.memories)
    for word in ("Byron", "I like tea", "My dog is called Ada"):
        assert any(word in text for text in hindsight.texts()), word
        assert any(word in row["content"] for row in honcho.messages()), word
    assert (
        (tmp_path / "agents" / "main" / "users" / "home" / "MEMORY.md")
        .read_text()
        .startswith("Deploys happen on Fridays.")
    )
    assert any("Deploys happen on Fridays." in row["content"] for row in honcho.conclusions())
    units = [one for one in found if one.provider == "hindsight" and one.op == "retain"]
    assert sorted((one.from_turn, one.through_turn) for one in units) == [(1, 1), (1, 2), (3, 3)]
