"""`holdfast hermes doctor`: what happened to a state.db of Hermes. `holdfast hermes repair`: mend it."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Invocation, command, home_of
from holdfast.cli.output import CONTRADICTION, OK, Output, write_new

HomeArgument = Annotated[
    Path | None,
    typer.Argument(metavar="HOME", help="The home folder of Hermes.", show_default="HERMES_HOME, or ~/.hermes"),
]
Logs = Annotated[
    list[Path] | None,
    typer.Option("--log", help="A log file or a pasted report. Without HOME, only these are examined."),
]
Page = Annotated[Path | None, typer.Option("--html", help="Write the report as one HTML page to this file.")]


@command(data=False)
async def doctor(
    invocation: Invocation,  # noqa: ARG001
    home: HomeArgument = None,
    log: Logs = None,
    html: Page = None,
) -> Output:
    """Examine a home of Hermes: sessions, lineage, messages, routing, search, memory files and logs.

    The home is only read. Hermes may run meanwhile. Exit code 3 if something is wrong.

    \b
    Examples:
      holdfast hermes doctor
      holdfast hermes doctor ~/.hermes --html report.html
      holdfast hermes doctor --log pasted.txt --json
    """
    from holdfast.hermes.doctor.examination import examine, examine_logs
    from holdfast.hermes.doctor.report import examination_text, examination_view
    from holdfast.hermes.doctor.report_html import examination_page
    from holdfast.hermes.home import find_home
    from holdfast.kernel.hardening import variables
    from holdfast.kernel.machine import SystemClock

    logs = [home_of(path) for path in log or ()]
    if home is None and logs:
        examined = examine_logs(logs)
    else:
        examined = examine(find_home(home, variables()).path, SystemClock().now() / 1000, logs)
    if html is not None:
        write_new(home_of(html), examination_page(examined).encode(), option="--html")
    code = OK if examined.is_silent else CONTRADICTION
    return Output(examination_view(examined), "\n".join(examination_text(examined)), code=code)
