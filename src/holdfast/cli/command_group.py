"""The root of all commands: loads a command when it is used, lists the commands by panel, reports usage errors as JSON.

`holdfast --help` is printed from the table in commands.py and imports no command.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from holdfast.kernel.errors import HoldfastError, Remedy

# Some releases of typer contain a copy of click with classes of its own.
USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__mro__[1])
ARGUMENTS = "holdfast.arguments"


class InvalidUsage(HoldfastError):
    """The command line names an unknown command or option, or an option has an invalid value."""

    remedy = Remedy.CORRECT
    hint = "Add --help to the command to see its arguments and options."


class Listed(NamedTuple):
    """A command of the table: where it is defined (`module:name` in this package), and its line of the list."""

    place: str
    summary: str


Panels = Mapping[str, Mapping[str, Listed]]


class LazyCommands(Mapping[str, Any]):
    """Commands by name, each imported on first use. An alias is hidden and runs the command that it stands for."""

    def __init__(self, panels: Panels, aliases: Mapping[str, str]) -> None:
        self._listed = {name: (panel, one) for panel, group in panels.items() for name, one in group.items()}
        self._aliases = aliases
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a click command, of whichever click typer uses
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._listed, *self._aliases])

    def __len__(self) -> int:
        return len(self._listed) + len(self._aliases)

    def _load(self, name: str) -> Any:  # noqa: ANN401
        panel, listed = self._listed[self._aliases.get(name, name)]
        module, _, attribute = listed.place.partition(":")
        found = getattr(import_module(f"holdfast.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(rich_markup_mode=None, add_completion=False)
            single.command(name)(found)
            found = single
        command: Any = get_command(found)
        command.hidden, command.rich_help_panel = name in self._aliases, panel
        return command


class CommandGroup(TyperGroup):
    """Subclasses set `panels` and `aliases`."""

    panels: Panels
    aliases: Mapping[str, str]

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(**attributes)
        self.commands = cast("Any", LazyCommands(self.panels, self.aliases))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002
        return [name for group in self.panels.values() for name in group]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        width = max(map(len, self.list_commands(ctx)))
        for panel, group in self.panels.items():
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
                from holdfast.api.shapes.shapes import error_view
                from holdfast.cli.output import print_json

                print_json(error_view(InvalidUsage(_message(error))))
            raise


def _message(error: Any) -> str:  # noqa: ANN401
    return str(error.format_message())
