"""`holdfast audit`: verify from the records that compression kept its promises."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.api.shapes.audit import audit_view
from holdfast.cli.actions import actions
from holdfast.cli.command import Runtime, visitor
from holdfast.cli.output import CONTRADICTION, OK, Heading, Output, Part, TextTable
from holdfast.kernel.errors import InvalidInput
from holdfast.sessions.compression_audit import Audit
from holdfast.sessions.history_sql import list_operations, list_session_facts

if TYPE_CHECKING:
    from holdfast.sessions.compression_audit import SessionFacts
    from holdfast.store.database import Database

audit_app = typer.Typer(name="audit", invoke_without_command=True, rich_markup_mode=None, add_completion=False)
audit_app.command()(actions)

PAGE = 50
OPERATIONS_PAGE = 10_000  # the number of operations that come with the facts of a session


@audit_app.callback()
@visitor(in_group=True)
async def audit(
    runtime: Runtime,
    log: Annotated[Path | None, typer.Option("--log", help="A log file to compare with the records.")] = None,
) -> Output:
    """Verify that compression lost nothing.

    The audit compares the records with each other and names the first contradiction. It can run beside a running
    server. Exit code 3 if there is a contradiction. `holdfast audit actions` shows the audit trail.

    \b
    Examples:
      holdfast audit
      holdfast audit --log holdfast.log --json
    """
    judged = Audit()
    after = ""
    while page := await runtime.db.read(list_session_facts(after=after, limit=PAGE)):
        for facts in page:
            judged.add(await _whole(runtime.db, facts))
        after = page[-1].session.id
    if log is not None:
        judged.add_log(log_lines(log))
    report = judged.report()
    counts = f"{report.sessions} sessions, {report.entries} entries, {report.summaries} summaries"
    rows = (
        ("contradicted" if one.contradictions else "holds", one.examined, one.contradictions, one.name, one.promise)
        for one in report.checks
    )
    text: list[Part] = [
        Heading(f"{counts}, {report.operations} operations"),
        TextTable(("result", "examined", "against", "check", "promise"), rows),
    ]
    if (first := report.first) is not None:
        text.append(f"\nfirst contradiction, {first.check}, session {first.session}:\n  {first.what}")
    return Output(audit_view(report), *text, code=OK if report.ok else CONTRADICTION)


async def _whole(db: "Database", facts: "SessionFacts") -> "SessionFacts":
    """The facts with all operations of the session."""
    operations = list(facts.operations)
    while operations and len(operations) % OPERATIONS_PAGE == 0:
        more = await db.read(list_operations(session=facts.session.id, after=operations[-1].id, limit=OPERATIONS_PAGE))
        if not more:
            break
        operations += more
    return replace(facts, operations=tuple(operations))


def log_lines(file: Path) -> Iterator[Mapping[str, object]]:
    """The objects of a log. A truncated line, such as the last one after a crash, is skipped."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            for line in opened:
                try:
                    yield msgspec.json.decode(line, type=dict[str, object])
                except msgspec.DecodeError:
                    continue
    except OSError as error:
        raise InvalidInput(f"the log {file} cannot be read: {error.strerror}") from error
