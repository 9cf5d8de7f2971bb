"""The root of all commands: the table of commands with their places and their lines of `holdfast --help`.

The root loads a command when it is used. `holdfast --help` is printed from the table and imports no command. A test
compares the lines with the commands.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from holdfast.cli.exit_codes import TOLD
from holdfast.kernel.errors import HoldfastError, Remedy


class Listed(NamedTuple):
    """A command of the table: where it is defined (`module:name` in this package), and its line of the list."""

    place: str
    summary: str


PANELS: Mapping[str, Mapping[str, Listed]] = {
    "Run": {
        "init": Listed("init:init", "Write a commented holdfast.toml that works."),
        "config": Listed("configuration:config_app", "Check and show the configuration."),
        "up": Listed("up:up", "Run the server: HTTP API, chat page and channels."),
        "backup": Listed("backup:backup", "Back up the data folder, also while a process serves it."),
        "restore": Listed("backup:restore", "Restore a backup into an empty data folder."),
        "reload": Listed("reload:reload", "Read holdfast.toml again without a restart."),
        "export": Listed("transfer:export", "Export an agent, a chat or everything."),
        "import": Listed("transfer:import_", "Import an export into a data folder that no process serves."),
        "encrypt": Listed("encryption:encrypt", "Encrypt the data folder."),
        "rekey": Listed("encryption:rekey", "Encrypt the data folder with another key."),
        "decrypt": Listed("encryption:decrypt", "Remove the encryption of the data folder."),
        "version": Listed("version:version", "Show the versions of Holdfast and its libraries."),
    },
    "Talk": {
        "chat": Listed("chat:chat", "Talk with an agent in the terminal."),
        "send": Listed("send:send", "Send a message to a chat."),
        "approvals": Listed("approvals:approvals_app", "List tool calls that wait for approval."),
        "approve": Listed("approvals:approve", "Run a tool call that waits for approval."),
        "deny": Listed("approvals:deny", "Refuse a tool call that waits for approval."),
        "compress": Listed("sessions:compress", "Summarise the older history of a session now."),
    },
    "Look": {
        "status": Listed("overview_commands:status", "Show what needs you, what waits, and a row for each agent."),
        "top": Listed("top:top", "Watch the status in a full screen."),
        "agents": Listed("overview_commands:agents", "Show what waits at each agent."),
        "tail": Listed("tail:tail", "Print what happens, as it happens."),
        "trace": Listed("trace:trace", "Show what happened to a message, step by step, with times."),
        "messages": Listed("message_list:messages", "List and search messages, newest first."),
        "attachment": Listed("messages:attachment", "Save an attachment of a message to a file."),
        "sessions": Listed("sessions:sessions", "List sessions, newest first."),
        "show": Listed("sessions:show", "Show the journal of a session, or a snapshot."),
        "context": Listed("sessions:context", "Show the context that the model would receive."),
        "replies": Listed("messages:replies", "List replies to chat platforms, newest first."),
        "deliveries": Listed("deliveries:deliveries", "List deliveries to memory providers, newest first."),
        "extractions": Listed("deliveries:extractions", "List memory extractions of ended sessions."),
        "channels": Listed("status:channels", "Show which bots are connected, and errors."),
        "tools": Listed("status:tools", "Show which MCP servers are connected, and errors."),
        "spend": Listed("status:spend", "Show the costs of models by agent, model and task."),
        "health": Listed("status:health", "Test a write, and whether a process is serving."),
        "log": Listed("logs:log", "Print the log, oldest line first."),
        "audit": Listed("audit:audit_app", "Verify that compression lost nothing."),
    },
    "Memory": {
        "memory": Listed("memory:memory", "Show and change the notes of an agent."),
        "recall": Listed("memory:recall", "Query the memory of an agent, as a turn does."),
        "forget": Listed("forget:forget", "Erase a person or a session."),
        "forgetting": Listed("forget:forgetting", "Show the progress of an erasure."),
    },
    "Access": {
        "token": Listed("tokens:token", "Manage access tokens for the HTTP API."),
        "logins": Listed("tokens:logins", "Manage browser logins."),
        "pairs": Listed("access:pairs", "List access requests, newest first."),
        "pair": Listed("access:pair", "Grant or deny an access request."),
        "unpair": Listed("access:unpair", "Revoke a sender's access."),
        "links": Listed("access:links", "List linked accounts."),
        "link": Listed("access:link", "Link an account to a person."),
        "unlink": Listed("access:unlink", "Remove the link of an account."),
        "move": Listed("access:move", "Give a conversation a new address."),
    },
    "Repair": {
        "pause": Listed("pausing:pause", "Pause an agent: it begins no turn."),
        "resume": Listed("pausing:resume", "Resume a paused agent."),
        "doctor": Listed("doctor:doctor", "Examine the store of a data folder, and repair it on request."),
        "resend": Listed("repairing:resend", "Send uncertain or failed replies again."),
        "replay": Listed("repairing:replay", "Retry parked deliveries."),
        "drop": Listed("repairing:drop", "Give up deliveries, replies or waiting messages."),
        "settle": Listed("repairing:settle", "Say that a delivery or a reply in doubt did arrive."),
        "retry-extraction": Listed("deliveries:retry_extraction", "Retry a failed memory extraction."),
        "backfill": Listed("deliveries:backfill", "Deliver past conversations to a memory provider."),
        "rebuild": Listed("deliveries:rebuild", "Rebuild the index of a memory provider."),
    },
    "Hermes": {
        "hermes": Listed("hermes:hermes_app", "Serve Hermes Agent: memory plugin, doctor, import."),
    },
    "Measure": {
        "eval": Listed("eval:eval_app", "Measure the quality of compression and recall."),
        "sim": Listed("sim:sim", "Simulate crashes and verify that nothing is lost."),
    },
}
ALIASES = {"finalisations": "extractions", "refinish": "retry-extraction", "forget-status": "forgetting"}
# Some releases of typer contain a copy of click with classes of its own.
USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__mro__[1])
ARGUMENTS = "holdfast.arguments"


class InvalidUsage(HoldfastError):
    """The command line names an unknown command or option, or an option has an invalid value."""

    remedy = Remedy.CORRECT
    hint = "Add --help to the command to see its arguments and options."


class LazyCommands(Mapping[str, Any]):
    """Commands by name, each imported on first use. An alias is hidden and runs the command that it stands for."""

    def __init__(self) -> None:
        self._listed = {name: (panel, one) for panel, group in PANELS.items() for name, one in group.items()}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a click command, of whichever click typer uses
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._listed, *ALIASES])

    def __len__(self) -> int:
        return len(self._listed) + len(ALIASES)

    def _load(self, name: str) -> Any:  # noqa: ANN401
        panel, listed = self._listed[ALIASES.get(name, name)]
        module, _, attribute = listed.place.partition(":")
        found = getattr(import_module(f"holdfast.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(rich_markup_mode=None, add_completion=False)
            single.command(name)(found)
            found = single
        command: Any = get_command(found)
        command.hidden, command.rich_help_panel = name in ALIASES, panel
        return command


class CommandGroup(TyperGroup):
    """Lists the commands by panel, and reports usage errors as JSON with `--json`."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(**attributes)
        self.commands = cast("Any", LazyCommands())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002
        return [name for group in PANELS.values() for name in group]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        width = max(map(len, self.list_commands(ctx)))
        for panel, group in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), one.summary) for name, one in group.items()])

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:  # noqa: ANN401
        given = list(args)  # parsing consumes the list itself
        context = super().make_context(info_name, args, *more, **extra)
        context.meta[ARGUMENTS] = given
        return context

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            if "--json" in ctx.meta.get(ARGUMENTS, ()):
                from holdfast.api.shapes.error_report import error_view
                from holdfast.cli.output import print_json

                print_json(error_view(InvalidUsage(cast("Any", error).format_message())))
            raise


app = typer.Typer(
    cls=CommandGroup,
    help="Holdfast: a session-and-memory runtime for agents that loses nothing it has acknowledged.",
    epilog=TOLD,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help takes a third of the time
    pretty_exceptions_enable=False,
)


def print_version(wanted: bool) -> None:
    if wanted:
        import holdfast

        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def holdfast(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Holdfast: a session-and-memory runtime for agents that loses nothing it has acknowledged."""
