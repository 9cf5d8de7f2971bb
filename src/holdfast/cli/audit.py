"""`holdfast audit`: prove from the records that compression kept its promises."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.actions import actions
from holdfast.cli.options import Data, Json

if TYPE_CHECKING:
    from holdfast.sessions.compression_audit import Report, SessionFacts
    from holdfast.store.database import Database

audit_app = typer.Typer(
    name="audit",
    invoke_without_command=True,
    rich_markup_mode=None,
)
audit_app.command()(actions)

PAGE = 50
OPERATIONS_PAGE = 10_000  # how many operations of a session come with its facts; the rest is asked for


@audit_app.callback()
def audit(
    context: typer.Context,
    log: Annotated[Path | None, typer.Option("--log", help="A log of JSON lines to compare with the records.")] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Prove that compression lost nothing. `holdfast audit actions` shows who did what.

    Compares the records with each other and names the first contradiction. Works beside a running process. Exit
    code 3 when there is a contradiction.

    \b
    Examples:
      holdfast audit
      holdfast audit --log holdfast.kernel.log --json
    """
    if context.invoked_subcommand is not None:
        return
    from holdfast.cli.running import run

    run(lambda: _audit(log, data, as_json=as_json), as_json=as_json)


async def _audit(log: Path | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.audit import audit_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json
    from holdfast.cli.running import CONTRADICTION, OK
    from holdfast.sessions.compression_audit import Audit
    from holdfast.sessions.history_sql import list_session_facts

    judged = Audit()
    async with visiting(data) as runtime:
        after = ""
        while page := await runtime.db.read(list_session_facts(after=after, limit=PAGE)):
            for facts in page:
                judged.add(await _whole(runtime.db, facts))
            after = page[-1].session.id
    if log is not None:
        judged.add_log(log_lines(log))
    report = judged.report()
    if as_json:
        print_json(audit_view(report))
    else:
        _print(report)
    return OK if report.ok else CONTRADICTION


async def _whole(db: "Database", facts: "SessionFacts") -> "SessionFacts":
    """The facts with every operation, however many there are."""
    from dataclasses import replace

    from holdfast.sessions.history_sql import list_operations

    operations = list(facts.operations)
    while operations and len(operations) % OPERATIONS_PAGE == 0:
        more = await db.read(list_operations(session=facts.session.id, after=operations[-1].id, limit=OPERATIONS_PAGE))
        if not more:
            break
        operations += more
    return replace(facts, operations=tuple(operations))


def log_lines(file: Path) -> Iterator[Mapping[str, object]]:
    """The objects of a log; a line that is cut off, as the last one may be after a crash, is passed over."""
    import msgspec

    from holdfast.kernel.errors import InvalidInput

    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            for line in opened:
                try:
                    yield msgspec.json.decode(line, type=dict[str, object])
                except msgspec.DecodeError:
                    continue
    except OSError as error:
        raise InvalidInput(f"the log {file} cannot be read: {error.strerror}") from error


def _print(report: "Report") -> None:
    from holdfast.cli.output import print_heading, print_table, visible

    counts = f"{report.sessions} sessions, {report.entries} entries, {report.summaries} summaries"
    print_heading(f"{counts}, {report.operations} operations")
    rows = [
        ("contradicted" if one.contradictions else "holds", one.examined, one.contradictions, one.name, one.promise)
        for one in report.checks
    ]
    print_table(("result", "examined", "against", "check", "promise"), rows)
    if report.first is not None:
        first = report.first
        print(f"\nfirst contradiction, {first.check}, session {visible(first.session)}:\n  {visible(first.what)}")
