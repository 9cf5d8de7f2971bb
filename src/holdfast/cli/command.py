"""What commands share: the decorators that make a command of a coroutine function, and the common options.

`command` adds the options that every command has (`--data`, `--json`, and on request `--config`, `--utc` and `--yes`),
runs the coroutine, prints its `Output` and leaves with its exit code. `visitor` also opens the data folder and puts a
refused act into the audit trail.

Rule: a command asks for confirmation if and only if no other command reverses it. Without a terminal it is refused
unless `--yes` is given.
"""

import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.output import USAGE, Output, print_error
from holdfast.cli.running import outcome
from holdfast.cli.times import shown_in
from holdfast.kernel.errors import ConfirmationRequired, InvalidInput

if TYPE_CHECKING:
    from holdfast.cli.opening import Invocation
    from holdfast.runtime.runtime import Runtime
else:
    Invocation = Runtime = Any  # for annotations: the classes are imported when a command runs, not by `--help`

__all__ = ["Invocation", "Runtime", "command", "command_group", "visitor"]
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
Utc = Annotated[bool, typer.Option("--utc", help="Print times in UTC, not in the zone of this machine.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Function = Callable[..., Coroutine[Any, Any, Output | int]]
Decorator = Callable[[Function], Callable[..., None]]
Question = Callable[..., str]


def command_group(name: str, help: str) -> typer.Typer:
    return typer.Typer(name=name, help=help, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


def command(
    *,
    data: bool = True,
    config: bool = False,
    times: bool = False,
    confirm: Question | None = None,
    in_group: bool = False,
) -> Decorator:
    """Make a command of a function whose first parameter is the `Invocation`.

    `times` is for a command that prints times: it gets `--utc`. `confirm` makes a question of the other parameters; an
    empty question is not asked. `in_group` is for the command that a group runs when no subcommand is named.
    """

    def decorate(function: Function) -> Callable[..., None]:
        def run(**given: Any) -> None:  # noqa: ANN401 - the parameters of any command
            if in_group and given.pop("context").invoked_subcommand is not None:
                return
            data, config, as_json, utc = (given.pop(name, None) for name in ("data", "config", "as_json", "utc"))
            if confirm is not None and not given.pop("yes") and (question := confirm(**given)):
                _ask(question, as_json=bool(as_json))
            from holdfast.cli.opening import Invocation

            invocation = Invocation(data, config, bool(as_json))
            with shown_in(utc=bool(utc)):
                code = outcome(lambda: _printed(function, invocation, given), as_json=invocation.as_json)
            raise typer.Exit(code)

        shared: dict[str, tuple[object, object]] = {"yes": (Yes, False)} if confirm is not None else {}
        shared |= {"config": (Config, None)} if config else {}
        shared |= {"data": (Data, None)} if data else {}
        shared |= {"utc": (Utc, False)} if times else {}
        _describe(run, function, {**shared, "as_json": (Json, False)}, in_group=in_group)
        return run

    return decorate


def visitor(
    *,
    config: bool = False,
    times: bool = False,
    make: bool = False,
    act: str = "",
    on: str = "",
    confirm: Question | None = None,
    in_group: bool = False,
) -> Decorator:
    """Make a command of a function whose first parameter is the `Runtime` of the data folder.

    `act` names the privileged act that the command attempts, and `on` the parameter with its subject.
    """

    def decorate(function: Function) -> Callable[..., None]:
        @wraps(function)
        async def visit(invocation: Invocation, **given: Any) -> Output | int:  # noqa: ANN401
            async with invocation.visiting(make=make, act=act, on=given.get(on, "")) as runtime:
                return await function(runtime, **given)

        return command(config=config, times=times, confirm=confirm, in_group=in_group)(visit)

    return decorate


async def _printed(function: Function, invocation: Invocation, given: dict[str, Any]) -> int:
    result = await function(invocation, **given)
    if isinstance(result, int):
        return result
    result.print(as_json=invocation.as_json)
    return result.code


def _describe(
    run: Callable[..., None], function: Function, shared: dict[str, tuple[object, object]], *, in_group: bool
) -> None:
    """Give the command the parameters of the function, without the first, and the shared options."""
    _, *own = signature(function).parameters.values()
    parameters = [
        *([Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)] if in_group else ()),
        *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in shared.items()
        ),
    ]
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {one.name: one.annotation for one in parameters}


def _ask(question: str, *, as_json: bool) -> None:
    """Exits with 1 if the answer is no, with 2 if no terminal is attached."""
    if _can_ask():
        typer.confirm(question, abort=True, err=True)
        return
    print_error(ConfirmationRequired(f"there is no terminal to confirm at: {question}"), as_json=as_json)
    raise typer.Exit(USAGE)


def confirm(question: str) -> bool:
    """Ask inside a running command, after it has shown what it would do. Raises `ConfirmationRequired`."""
    if not _can_ask():
        raise ConfirmationRequired(f"there is no terminal to confirm at: {question}")
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False


def _can_ask() -> bool:
    return sys.stdin.isatty()


def home_of(path: Path) -> Path:
    """The path with `~` expanded. Raises `InvalidInput` for an unknown home folder."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise InvalidInput(f"{path}: the home folder is unknown; use an absolute path") from error
