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

Providers = Annotated[
    bool, typer.Option("--providers", help="Also ask the configured Hindsight and Honcho which turns they have.")
]


@command(data=False)
async def doctor(
    invocation: Invocation,  # noqa: ARG001
    *,
    home: HomeArgument = None,
    log: Logs = None,
    html: Page = None,
    providers: Providers = False,
) -> Output:
    """Examine a home of Hermes: sessions, lineage, messages, routing, search, memory files and logs.

    The home is only read. Hermes may run meanwhile. Only --providers uses the network. Exit code 3 if something is
    wrong.

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
    if providers and examined.records is not None:
        from holdfast.hermes.doctor.kept_by_providers import with_retention

        examined = await with_retention(find_home(home, variables()), examined, variables())
    if html is not None:
        write_new(home_of(html), examination_page(examined).encode(), option="--html")
    code = OK if examined.is_silent else CONTRADICTION
    return Output(examination_view(examined), "\n".join(examination_text(examined)), code=code)


Target = Annotated[
    Path | None,
    typer.Option("--to", help="The folder for the repaired copy; it must not exist.", show_default="HOME-repaired"),
]
InPlace = Annotated[bool, typer.Option("--in-place", help="Change the home itself, and keep a backup in it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


def _question(home: Path | None, *, in_place: bool, dry_run: bool, **_: object) -> str:
    where = home or "the home of Hermes"
    return f"Change the database in {where}? --dry-run shows the changes." if in_place and not dry_run else ""


@command(data=False, confirm=_question)
async def repair(
    invocation: Invocation,  # noqa: ARG001
    *,
    home: HomeArgument = None,
    to: Target = None,
    in_place: InPlace = False,
    dry_run: DryRun = False,
) -> Output:
    """Repair what `holdfast hermes doctor` found, on a copy of the home.

    Only rows change, never the schema. What is only suspected is left alone, and no two histories are merged. Hermes
    must be stopped. Exit code 3 if something is left that is wrong.

    \b
    Examples:
      holdfast hermes repair --dry-run
      holdfast hermes repair ~/.hermes --to repaired
      holdfast hermes repair ~/.hermes --in-place
    """
    from holdfast.hermes.doctor.repair import preview, repair_in_place, repair_to
    from holdfast.hermes.doctor.report_repair import backup_name, repair_text, repair_view
    from holdfast.hermes.home import find_home
    from holdfast.kernel.hardening import variables
    from holdfast.kernel.machine import SystemClock

    if in_place and to is not None:
        raise typer.BadParameter("--in-place and --to exclude each other; use one of them")
    path, now = find_home(home, variables()).path, SystemClock().now()
    if dry_run:
        result = preview(path, now / 1000)
    elif in_place:
        result = repair_in_place(path, path / "backups" / backup_name(now), now / 1000)
    else:
        target = home_of(to) if to is not None else path.with_name(f"{path.name}-repaired")
        result = repair_to(path, target, now / 1000)
    code = OK if result.after.is_silent else CONTRADICTION
    return Output(repair_view(result), "\n".join(repair_text(result)), code=code)
