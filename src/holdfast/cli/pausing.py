"""`holdfast pause` and `resume`: an agent begins no turn, or goes on."""

from typing import Annotated

import typer

from holdfast.api.shapes.acting import change_view
from holdfast.cli.command import Runtime, visitor
from holdfast.cli.output import Output, when
from holdfast.monitor.status import plural

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The name of the agent.")]


@visitor(times=True, act="agent.paused", on="agent")
async def pause(runtime: Runtime, agent: Agent) -> Output:
    """Pause an agent: it begins no turn.

    The agent accepts and stores messages, open turns end, and replies and deliveries go on. The pause lasts until
    `holdfast resume`, also across restarts.

    \b
    Examples:
      holdfast pause main
      holdfast pause main --json
    """
    change = await runtime.pauses.pause(agent)
    found = change.pause
    if change.changed or found is None:
        ending = plural(change.open_turns, "open turn ends first", "open turns end first")
        text = f"{agent} is paused{'; ' + ending if ending else ''}. `holdfast resume {agent}` lets it go on."
    else:
        text = f"{agent} was paused already, by {found.who} at {when(found.paused_at)}; nothing changed."
    return Output(change_view(agent, change, paused=True), text)


@visitor(act="agent.resumed", on="agent")
async def resume(runtime: Runtime, agent: Agent) -> Output:
    """Resume a paused agent.

    Its messages are answered in their order, the chat that waited longest first.

    \b
    Examples:
      holdfast resume main
    """
    change = await runtime.pauses.resume(agent)
    if change.changed:
        waiting = plural(change.waiting, "message waits", "messages wait") or "no message waits"
        text = f"{agent} is resumed; {waiting}."
    else:
        text = f"{agent} is not paused; nothing changed."
    return Output(change_view(agent, change, paused=False), text)
