"""An agent on any platform that says half of its answer, waits at a gate and then says all of it."""

from dataclasses import replace

from holdfast.kernel.ids import AgentName
from holdfast.outbox.draft import FIRST_AFTER_CHARS
from holdfast.outbox.reply_sql import list_replies
from holdfast.runtime.app import open_runtime
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import AccessPolicy, Door
from tests.support.fakes import Gate, ScriptedModel, policy, says, stands_at

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)
HALF = "Half of an answer, and long enough to be shown at once: " + "x" * FIRST_AFTER_CHARS
WHOLE = f"{HALF} The other half & the end."


async def streaming(folder, channel, gate: Gate, **settings):
    """A runtime whose agent `ada` has this channel, with drafts unless told otherwise."""
    model = ScriptedModel(stands_at(gate, says(WHOLE), after=HALF))
    chosen = replace(policy(), access=OPEN, memory={}, channels={channel: {"stream": True, **settings}})
    agent = Agent(policy=chosen, model=model, summariser=model, tools=ToolBox())
    return await open_runtime(folder / "data", agents=Agents(None, {AgentName("ada"): agent}), connect=folder)


async def delivered(runtime):
    """The ledger's only row, once it is over."""
    feed = runtime.events()
    while True:
        found = await runtime.db.read(list_replies())
        if found and found[0].state not in {"pending", "attempting"}:
            feed.close()
            (row,) = found
            return row
        await feed.next_within(200)
