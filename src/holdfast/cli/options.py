"""Options and arguments that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
OnlyAgent = Annotated[str | None, typer.Option("--agent", help="Only of this agent.", show_default="all agents")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="The maximum number of rows.")]
AfterNumber = Annotated[int, typer.Option("--after", min=0, help="`next` of the previous page.")]

# --- fixed sets of values: copies of enums that `--help` does not import; a test compares them


class DeliveryStateName(StrEnum):
    SCHEDULED = "scheduled"
    SENDING = "sending"
    UNCERTAIN = "uncertain"
    DELIVERED = "delivered"
    PARKED = "parked"
    DROPPED = "dropped"
    RETRACTED = "retracted"


class ReplyStateName(StrEnum):
    PENDING = "pending"
    ATTEMPTING = "attempting"
    DELIVERED = "delivered"
    UNCERTAIN = "uncertain"
    FAILED = "failed"


class FinishStepName(StrEnum):
    BEGUN = "begun"
    ASKED = "asked"
    APPLIED = "applied"
    CLOSED = "closed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TargetName(StrEnum):
    MEMORY = "memory"
    USER = "user"


class ScopeName(StrEnum):
    SEND = "send"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"
