"""`holdfast recall`: query the memory of an agent."""

from typing import Annotated

import typer

from holdfast.api.shapes.memory import memories_view
from holdfast.cli.command import Runtime, visitor
from holdfast.cli.options import AgentName
from holdfast.cli.output import Output, TextTable, when


@visitor(config=True)
async def recall(
    runtime: Runtime,
    text: Annotated[str, typer.Argument(help="The query.")],
    agent: AgentName = None,
    chat: Annotated[str, typer.Option("--chat", help="Query as if in this chat.")] = "terminal",
    sender: Annotated[
        str | None, typer.Option("--sender", help="Query as if from this sender.", show_default="the chat")
    ] = None,
) -> Output:
    """Query the memory of an agent, as a turn does.

    \b
    Examples:
      holdfast recall "what is the cat called?"
      holdfast recall "the invoice" --agent bookkeeper --chat office --json
    """
    view = memories_view(await runtime.recall(text, agent=agent, chat=chat, sender=sender))
    rows = ((when(one.at), one.speaker, one.provider, one.text) for one in view.memories)
    table = TextTable(("when", "who", "from", "memory"), rows)
    return Output(view, table, *(f"skipped: {why}" for why in view.skipped))
