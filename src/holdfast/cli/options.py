"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.kernel.errors import InvalidInput

Data = Annotated[
    Path | None,
    typer.Option("--data", envvar="HOLDFAST_DATA", help="The data folder.", show_default="the user's data folder"),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="HOLDFAST_CONFIG",
        help="The configuration file.",
        show_default="holdfast.toml in the data folder, if it exists",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FIRST = "main, or the first configured agent"
AgentName = Annotated[str | None, typer.Option("--agent", help="The agent.", show_default=FIRST)]
Chat = Annotated[str, typer.Option("--chat", help="The chat.")]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The id of the session.")]
OnlyAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent.", show_default="all agents")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="The maximum number of rows.")]
AfterNumber = Annotated[int, typer.Option("--after", min=0, help="The value of `next` on the previous page.")]


def home_of(path: Path) -> Path:
    """The path with `~` expanded. Raises `InvalidInput` for an unknown home folder."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise InvalidInput(f"{path}: the home folder is unknown; use an absolute path") from error
