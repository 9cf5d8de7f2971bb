"""`holdfast hermes`: what Holdfast does for Hermes Agent, one command each."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Invocation, command, command_group
from holdfast.cli.output import Output, facts

Home = Annotated[
    Path | None,
    typer.Argument(metavar="HOME", help="The home folder of Hermes.", show_default="HERMES_HOME, or ~/.hermes"),
]

hermes_app = command_group("hermes", "Serve Hermes Agent: memory plugin, doctor, import.")


@hermes_app.command()
@command(data=False)
async def status(invocation: Invocation, home: Home = None) -> Output:  # noqa: ARG001
    """Show whether Hermes delivers its turns through Holdfast.

    \b
    Examples:
      holdfast hermes status
      holdfast hermes status ~/.hermes --json
    """
    from holdfast.hermes.home import find_home
    from holdfast.kernel.hardening import variables

    found = find_home(home, variables())
    view = {"home": str(found.path), "installed": found.plugin.is_dir()}
    return Output(view, facts(view))
