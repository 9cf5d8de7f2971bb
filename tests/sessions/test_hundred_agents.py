"""A hundred agents of one process cross the threshold within a minute: no id changes, no message is missed (R27)."""

import asyncio
import re

from holdfast.kernel.ids import SessionId
from holdfast.sessions.compression import Thresholds
from holdfast.turns.context import ModelMessage
from tests.support.fakes import Process, ScriptedModel, agents, policy, says, soon
from tests.support.patience import within

AGENTS = 100
ROUNDS = 6  # messages per agent; the threshold is crossed on the way
MARK = re.compile(r"\bm\d+-a\d+\b")
FILLER = "x" * 240


def marks(messages: tuple[ModelMessage, ...]) -> list[str]:
    return [mark for message in messages for mark in MARK.findall(message.content)]


def keep_marks(request):
    """A summary that keeps every mark it was shown."""
    return says("kept: " + " ".join(dict.fromkeys(marks(request.messages[1:]))))(request)


async def test_a_hundred_agents_cross_the_threshold_together(tmp_path):
    model = ScriptedModel(otherwise=says("ok"), summary=keep_marks)
    thresholds = Thresholds(context_tokens=400, soft=0.5, hard=0.8, keep=0.2)
    async with await Process.start(tmp_path, agents(model, policy(thresholds=thresholds))) as runtime:

        async def converse(agent: str) -> tuple[set[SessionId], int]:
            """The ids that the agent's sessions ever had, and the summaries of the last one."""
            ids: set[SessionId] = set()
            for n in range(ROUNDS):
                await soon(runtime.ask("home", f"m{n}-{agent} {FILLER}", agent=agent, id=str(n)))
                ids |= {session.id for session in await runtime.sessions(agent=agent)}
            (session,) = await runtime.sessions(agent=agent, chat="home")
            return ids, session.summaries

        names = [f"a{n}" for n in range(AGENTS)]
        async with within(60):
            results = await asyncio.gather(*(converse(name) for name in names))

        for agent, (ids, summaries) in zip(names, results, strict=True):
            assert len(ids) == 1, "one session, one id, from the first message to the last"
            assert summaries >= 1, "the threshold was crossed"
            own = [request for request in model.requests if marks(request)[-1].endswith(f"-{agent}")]
            assert len(own) == ROUNDS, "each message was answered once"
            for n, request in enumerate(own):
                seen = list(dict.fromkeys(marks(request)))
                assert seen == [f"m{k}-{agent}" for k in range(n + 1)], "all of it, in order, and nothing of others"
                assert request[-1].content == f"m{n}-{agent} {FILLER}", "the message itself, whole"
        for request in model.summaries_asked:
            assert len({mark.split("-")[1] for mark in marks(request)}) == 1, "no summariser saw two agents"
