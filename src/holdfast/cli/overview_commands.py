"""`holdfast status` and `agents`: the overview at one moment."""

from holdfast.cli.command import Invocation, OnlyAgent, command
from holdfast.cli.output import OK, WRONG, Output
from holdfast.cli.overview import agent_json, overview_json, read_overview
from holdfast.cli.overview_text import agent_table, overview_text


@command(config=True, times=True)
async def status(invocation: Invocation, agent: OnlyAgent = None) -> Output:
    """Show what needs you, what waits, and a row for each agent.

    "Needs you" is what holds a turn up until a person acts; "stuck" is what does not go on although it could. What is
    parked, uncertain or failed waits for a decision and holds nothing up. What mends itself needs nobody. The proved
    write of an agent is its newest delivery that a memory provider acknowledged.

    Exit code 1 if something needs you or is stuck, also if no process serves the data folder.

    \b
    Examples:
      holdfast status
      holdfast status --agent main --utc
      holdfast status --json
    """
    async with invocation.visiting() as runtime:
        name = runtime.named(agent) if agent is not None else None
        found = (await read_overview(invocation, runtime)).of(name)
    return Output(overview_json(found), *overview_text(found), code=WRONG if found.needs_you else OK)


@command(config=True, times=True)
async def agents(invocation: Invocation) -> Output:
    """Show what waits at each agent.

    \b
    Examples:
      holdfast agents
      holdfast agents --json
    """
    async with invocation.visiting() as runtime:
        found = await read_overview(invocation, runtime)
    return Output({"agents": [agent_json(one) for one in found.agents]}, agent_table(found.agents))
