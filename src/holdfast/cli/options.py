"""Options that several commands share, and what their defaults mean."""

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
        help="The configuration.",
        show_default="holdfast.toml in the data folder, if there is one",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
FIRST = "main, or the first that is configured"
AgentName = Annotated[str | None, typer.Option("--agent", help="The agent.", show_default=FIRST)]
Chat = Annotated[str, typer.Option("--chat", help="The chat.")]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]

# --- fixed sets of values: they repeat enums that `--help` does not load; a test compares them


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
