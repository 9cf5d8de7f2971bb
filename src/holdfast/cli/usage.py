"""Wrong usage, told to programs as well: with `--json` the error also stands on stdout, in the form of all errors."""

from typing import Any, cast

import typer
from typer.core import TyperGroup

from holdfast.kernel.errors import HoldfastError, Remedy

# Some releases of typer bring a copy of click with classes of its own.
USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__mro__[1])
ARGUMENTS = "holdfast.arguments"


class InvalidUsage(HoldfastError):
    """The command line has an unknown command or option, or a value that the option does not take."""

    code = "invalid_usage"
    remedy = Remedy.CORRECT
    hint = "Add --help to the command to see what it takes."


class UsageGroup(TyperGroup):
    """The root of all commands."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:  # noqa: ANN401
        wanted = list(args)  # parsing consumes the list itself
        context = super().make_context(info_name, args, *more, **extra)
        context.meta[ARGUMENTS] = wanted
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
