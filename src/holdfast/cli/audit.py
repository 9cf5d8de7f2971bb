"""`holdfast audit`: verify from the records that compression kept its promises. `audit actions`: the audit trail."""

import csv
import io
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.api.shapes.administration import action_view, actions_view, audit_view
from holdfast.audit.action import COLUMNS, NO_DIGEST, Action, ActionFilter, act_named, broken_link, columns_of
from holdfast.audit.action_sql import list_actions, read_last_action
from holdfast.cli.command import AfterNumber, Limit, Runtime, visitor
from holdfast.cli.output import CONTRADICTION, OK, Heading, Output, Part, TextTable, when, write_new
from holdfast.cli.progress import progress
from holdfast.cli.times import parse_time, utc_time
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import Instant
from holdfast.sessions.compression_audit import Audit, SessionFacts
from holdfast.sessions.history_sql import list_operations, list_session_facts
from holdfast.store.ports import Database

audit_app = typer.Typer(name="audit", invoke_without_command=True, rich_markup_mode=None, add_completion=False)
SESSIONS_PAGE = 50
OPERATIONS_PAGE = 10_000  # the number of operations that come with the facts of a session
ACTIONS_PAGE = 1_000


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
    with progress("sessions audited") as advance:
        while page := await runtime.db.read(list_session_facts(after=after, limit=SESSIONS_PAGE)):
            for facts in page:
                judged.add(await _whole(runtime.db, facts))
            after = page[-1].session.id
            advance(len(page))
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


async def _whole(db: Database, facts: SessionFacts) -> SessionFacts:
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


@audit_app.command()
@visitor(times=True)
async def actions(
    runtime: Runtime,
    *,
    since: Annotated[
        str, typer.Option("--since", help="Only acts since this time: 30m, 12h, 7d, or a date such as 2026-11-17.")
    ] = "",
    actor: Annotated[
        str, typer.Option("--actor", help="Only acts of this actor: a token's id, operator, a principal, a user.")
    ] = "",
    verb: Annotated[str | None, typer.Option("--verb", help="Only acts of this kind, such as token.created.")] = None,
    subject: Annotated[str, typer.Option("--subject", help="Only acts on this id.")] = "",
    after: AfterNumber = 0,
    limit: Limit = 50,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write all matching acts to this new file, oldest first: .csv or JSON lines."),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check that no row was changed, removed or added.")] = False,
) -> Output:
    """List who did what, when and from where, newest first.

    The audit trail has every privileged act and every refused attempt: tokens, logins, access, links, approvals,
    deletions, erasures, changes of notes by an operator, replays, settings. With --verify the exit code is 3 if the
    trail was tampered with. Store the printed digest on another machine, to detect a
    trail that was replaced as a whole.

    \b
    Examples:
      holdfast audit actions
      holdfast audit actions --since 7d --verb token.created --json
      holdfast audit actions --export actions.csv
      holdfast audit actions --verify
    """
    start = parse_time(since, option="--since") if since else Instant(0)
    wanted = ActionFilter(actor=actor, act=act_named(verb), subject=subject, since=start)
    if verify:
        return await _verify(runtime.db)
    if export is not None:
        rows = [one async for one in _pages(runtime.db, wanted)]
        write_new(export, _encoded(rows, as_csv=export.suffix.lower() == ".csv"), option="--export")
        return Output({"file": str(export), "actions": len(rows)}, f"{len(rows)} acts were written to {export}.")
    found = list(await runtime.db.read(list_actions(wanted, after=after, limit=limit)))
    cells = (
        (
            when(one.at),
            one.verb,
            f"{one.by.id} ({one.by.label})" if one.by.label else one.by.id,
            one.subject,
            one.outcome.value if not one.code else f"{one.outcome.value}: {one.code}",
            one.count if one.count > 1 else "",
            one.by.origin,
        )
        for one in found
    )
    table = TextTable(("when", "act", "who", "what", "outcome", "times", "from"), cells)
    return Output(actions_view(found, limit), table)


async def _pages(db: Database, wanted: ActionFilter) -> AsyncIterator[Action]:
    """All matching acts, oldest first."""
    after = 0
    while page := await db.read(list_actions(wanted, after=after, limit=ACTIONS_PAGE, oldest_first=True)):
        for action in page:
            yield action
        after = page[-1].n


async def _verify(db: Database) -> Output:
    first = await db.read(read_last_action())
    n, digest, wrong = 0, NO_DIGEST, None
    with progress("acts verified", first[0]) as advance:
        while wrong is None and (page := await db.read(list_actions(after=n, limit=ACTIONS_PAGE, oldest_first=True))):
            wrong = broken_link(page, n=n, digest=digest)
            n, digest = page[-1].n, page[-1].digest
            advance(len(page))
    last = await db.read(read_last_action())  # acts may have been added meanwhile
    if wrong is None and not (first[0] <= n <= last[0] and dict([first, last]).get(n, digest) == digest):
        wrong = f"the trail ends at action {n}, but its head is action {last[0]}"
    view = {"ok": wrong is None, "actions": n, "digest": digest.hex(), "wrong": wrong}
    if wrong is not None:
        return Output(view, f"The trail is not intact: {wrong}.", code=CONTRADICTION)
    return Output(view, f"{n} acts, all intact; the newest digest is {digest.hex()}")


def _encoded(rows: list[Action], *, as_csv: bool) -> bytes:
    text = io.StringIO()
    if as_csv:
        cells = ({**columns_of(one), "at": utc_time(one.at)}.values() for one in rows)
        csv.writer(text).writerows([COLUMNS, *(map(_inert, row) for row in cells)])
    else:
        text.writelines(msgspec.json.encode(action_view(one)).decode() + "\n" for one in rows)
    return text.getvalue().encode()


def _inert(cell: str | int) -> str | int:
    """A cell that no spreadsheet evaluates as a formula: senders choose their own names."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@"} else cell
