"""`holdfast pause` and `resume`: an agent begins no turn, or goes on."""

from typing import Annotated

import msgspec
import typer

from holdfast.api.shapes.acting import change_view
from holdfast.cli.command import Runtime, visitor
from holdfast.cli.output import Output, when
from holdfast.inbox.address import agent_name
from holdfast.monitor.queues import Queue
from holdfast.monitor.status import plural
from holdfast.monitor.status_sql import read_status
from holdfast.turns.agent_pause import PauseChange

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The name of the agent.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")]


@visitor(times=True, act="agent.paused", on="agent")
async def pause(runtime: Runtime, agent: Agent, *, dry_run: DryRun = False) -> Output:
    """Pause an agent: it begins no turn.

    The agent accepts and stores messages, open turns end, and replies and deliveries go on. The pause lasts until
    `holdfast resume`, also across restarts.

    \b
    Examples:
      holdfast pause main --dry-run
      holdfast pause main --json
    """
    change = await (_looked(runtime, agent, pausing=True) if dry_run else runtime.pauses.pause(agent))
    found, verb = change.pause, "would be" if dry_run else "is"
    if change.changed or found is None:
        ending = plural(change.open_turns, "open turn ends first", "open turns end first")
        text = f"{agent} {verb} paused{'; ' + ending if ending else ''}. `holdfast resume {agent}` lets it go on."
    else:
        text = f"{agent} is paused already, by {found.who} at {when(found.paused_at)}; nothing changes."
    return _shown(agent, change, text, paused=True, dry_run=dry_run)


@visitor(act="agent.resumed", on="agent")
async def resume(runtime: Runtime, agent: Agent, *, dry_run: DryRun = False) -> Output:
    """Resume a paused agent.

    Its messages are answered in their order, the chat that waited longest first.

    \b
    Examples:
      holdfast resume main
      holdfast resume main --dry-run
    """
    change = await (_looked(runtime, agent, pausing=False) if dry_run else runtime.pauses.resume(agent))
    if change.changed:
        waiting = plural(change.waiting, "message waits", "messages wait") or "no message waits"
        text = f"{agent} {'would be' if dry_run else 'is'} resumed; {waiting}."
    else:
        text = f"{agent} is not paused; nothing changes."
    return _shown(agent, change, text, paused=False, dry_run=dry_run)


async def _looked(runtime: Runtime, agent: str, *, pausing: bool) -> PauseChange:
    """What a request would change. Raises `AgentNotFound` and `InvalidName`."""
    status = await runtime.db.read(read_status())
    found = next((one for one in status.paused if one.agent == agent), None)
    name = agent_name(agent) if found is not None else runtime.named(agent_name(agent))
    return PauseChange(
        changed=(found is None) is pausing,
        pause=found,
        waiting=status.queues.messages.get(name, Queue()).count("waiting", "in_turn"),
        open_turns=sum(turn.agent == name for turn in status.running),
    )


def _shown(agent: str, change: PauseChange, text: str, *, paused: bool, dry_run: bool) -> Output:
    view = change_view(agent, change, paused=paused)
    return Output({**msgspec.to_builtins(view), "dry_run": dry_run}, text)
