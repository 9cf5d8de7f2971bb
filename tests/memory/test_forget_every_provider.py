"""Forgetting a person leaves none of their words at any provider: said, noted and extracted, in private and in a group.

One runtime with all four providers, through the vendors' own clients. While a provider is away it is not done.

Rules: D25, control 18.
"""

import pytest

from holdfast.memory.recall import RecallPolicy
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.memory.test_visibility_matrix import PRIVATE, TOOL_IN_GROUP, Reader, Watched, World
from tests.support.fakes import soon
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer

HER_WORDS = PRIVATE | {TOOL_IN_GROUP, "Otto"}
BOB = Reader.at("bob", "dm", "bob")


def at_providers(hindsight: FakeHindsight, honcho: HonchoServer, folder) -> dict[str, set[str]]:
    """Which of her words each provider still has."""
    files = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    kept = {"hindsight": repr(hindsight.banks), "honcho": repr(honcho.workspaces), "here": files.decode("latin-1")}
    return {name: {word for word in HER_WORDS if word in text} for name, text in kept.items()}


@pytest.mark.parametrize("is_away", [False, True], ids=["all answer", "one is away at first"])
async def test_no_word_of_a_forgotten_person_is_left_at_any_provider(tmp_path, is_away):
    async with FakeHindsight() as hindsight, HonchoServer() as honcho:
        honcho.prompt = True
        policy = AgentPolicy(
            memory={"local": {}, "files": {}, "hindsight": {"url": hindsight.url}, "honcho": {"url": honcho.url}},
            recall=RecallPolicy(budget_ms=30_000, limit=50),
        )
        async with await open_runtime(tmp_path, agents=make_agents(model=Watched(), policy=policy)) as runtime:
            world = World(runtime, Watched(), tmp_path / "agents" / "main")
            await world.fill()
            await world.say(BOB, "My dog is called Rex.")
            assert all(at_providers(hindsight, honcho, tmp_path).values())
            hindsight.database_down = is_away
            asked = await runtime.forget(person="ada", id="please")
            if is_away:
                assert not asked.done
                assert not (await runtime.forget_status("please")).done
                hindsight.database_down = False

            async def done() -> None:
                feed = runtime.events()
                while not (await runtime.forget_status("please")).done:
                    await feed.next_within(100)

            await soon(done())
        assert at_providers(hindsight, honcho, tmp_path) == {"hindsight": set(), "honcho": set(), "here": set()}
        assert "Rex" in repr(hindsight.banks)
        assert "Rex" in repr(honcho.workspaces)
