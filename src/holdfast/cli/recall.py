"""`holdfast recall`: what an agent's memory has on a question."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import FIRST, Config, Data, Json


def recall(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    agent: Annotated[str | None, typer.Option("--agent", help="Whose memory.", show_default=FIRST)] = None,
    chat: Annotated[str, typer.Option("--chat", help="As if asked in this chat.")] = "terminal",
    sender: Annotated[
        str | None, typer.Option("--sender", help="As if asked by this sender.", show_default="the chat")
    ] = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Ask the memory of an agent, as a turn would.

    \b
    Examples:
      holdfast recall "what is the cat called?"
      holdfast recall "the invoice" --agent bookkeeper --chat office --json
    """
    from holdfast.cli.running import run

    run(lambda: _recall(text, agent, (chat, sender), (data, config), as_json=as_json), as_json=as_json)


async def _recall(
    text: str,
    agent: str | None,
    asked: tuple[str, str | None],
    where: tuple[Path | None, Path | None],
    *,
    as_json: bool,
) -> int:
    from holdfast.api.shapes.memory import memories_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK

    chat, sender = asked
    async with visiting(*where) as runtime:
        view = memories_view(await runtime.recall(text, agent=agent, chat=chat, sender=sender))
    if as_json:
        print_json(view)
        return OK
    print_table(
        ("when", "who", "from", "memory"),
        [(when(one.at), one.speaker, one.provider, one.text) for one in view.memories],
    )
    for why in view.skipped:
        print(f"left out: {why}")
    return OK
