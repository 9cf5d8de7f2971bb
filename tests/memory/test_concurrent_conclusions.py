"""The second incident: conclusions made at the same time are all kept, each once, in one session.

There, several threads shared a cache of sessions, and a thread that missed the entry dropped the conclusion silently.
Here a conclusion is durable before its caller gets an answer, and a lane has one dispatcher. The runtime, the vendor's
client and the socket are real; the server keeps two copies of a message that it gets twice.

Rules: R14, R15.
"""

import asyncio
from collections import Counter

from holdfast.kernel.ids import AgentName
from holdfast.memory.notes import Applied, MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.runtime.runtime import Runtime
from tests.support.fakes import ScriptedModel, calls, says, soon
from tests.support.memory_runtimes import next_delivery, open_with_honcho, settled
from tests.support.memory_world import all_deliveries

MANY = 50


async def conclude(runtime: Runtime, n: int) -> Applied:
    batch = MemoryBatch(
        agent=AgentName("main"),
        subject=f"person-{n % 5}",
        origin=f"test:{n}",
        changes=(NoteChange(verb=MemoryVerb.ADD, target=Target.USER, text=f"conclusion {n}"),),
    )
    outcome = await runtime.apply_memory(batch)
    assert isinstance(outcome, Applied)
    return outcome


async def test_fifty_concurrent_conclusions_all_land_once_beside_turns_of_one_session(server, tmp_path):
    async with await open_with_honcho(server, tmp_path) as runtime:
        asked = [runtime.ask("c", f"turn {n}") for n in range(10)]
        made = [conclude(runtime, n) for n in range(MANY)]
        await soon(asyncio.gather(*made, *asked))
        await settled(runtime)
        states = Counter(one.state for one in await all_deliveries(runtime))
    assert states == {"delivered": MANY + 10}
    kept = Counter(row["content"] for row in server.conclusions())
    assert kept == {f"conclusion {n}": 1 for n in range(MANY)}
    assert len(server.sessions()) == 1
    assert server.made_empty == [], "only the first message creates the session"
    told = [row["content"] for row in server.messages(server.sessions()[0])]
    assert sorted(told) == sorted([f"turn {n}" for n in range(10)] + [f"re: turn {n}" for n in range(10)])
    assert told[1::2] == [f"re: {text}" for text in told[::2]], "turn by turn, in order"


async def test_fifty_conclusions_of_the_model_itself_all_land_and_none_fails(server, tmp_path):
    """Through the tool, in the turns of many chats at once, as the incident began."""
    script = []
    for n in range(MANY):
        text = f'{{"action": "add", "target": "memory", "content": "fact number {n}"}}'
        script += [calls(f"memory {text}", ids=[f"call_{n}"])]
    model = ScriptedModel(*script, otherwise=says("noted"))
    async with await open_with_honcho(server, tmp_path, model) as runtime:
        await soon(asyncio.gather(*(runtime.ask(f"chat-{n}", "remember this") for n in range(MANY))))
        await settled(runtime)
        results = [message.content for request in model.requests for message in request if message.role == "tool"]
    assert Counter(row["content"] for row in server.conclusions()) == {f"fact number {n}": 1 for n in range(MANY)}
    assert len(results) >= MANY
    assert not [text for text in results if "error" in text.lower() or "fail" in text.lower()]
    assert server.made_empty == []
    assert len(server.sessions()) == MANY, "one for each chat, made by its own turn"


async def test_a_conclusion_made_while_the_service_is_away_is_kept_and_shown_not_dropped(server, tmp_path):
    server.database_down = True
    async with await open_with_honcho(server, tmp_path) as runtime:
        await soon(conclude(runtime, 1))
        while not any(one.reason for one in await all_deliveries(runtime)):
            await soon(next_delivery(runtime))
        (waiting,) = await all_deliveries(runtime)
        assert (waiting.op, waiting.state) == ("remember", "scheduled")
        assert waiting.reason is not None
        assert "500" in waiting.reason
    assert server.conclusions() == []
    server.database_down = False
    async with await open_with_honcho(server, tmp_path) as runtime:
        await settled(runtime)
        (arrived,) = await all_deliveries(runtime)
        assert (arrived.id, arrived.state) == (waiting.id, "delivered"), "after a restart, too"
    assert [row["content"] for row in server.conclusions()] == ["conclusion 1"]
