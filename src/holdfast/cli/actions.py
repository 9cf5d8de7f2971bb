"""`holdfast audit actions`: the audit trail of privileged acts, to read, to export and to verify."""

import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, Json

if TYPE_CHECKING:
    from holdfast.audit.action import Action, ActionFilter
    from holdfast.kernel.ids import Instant
    from holdfast.store.database import Database

LIMIT, PAGE = 50, 1_000
UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
COLUMNS = ("n", "at", "verb", "actor_kind", "actor", "label", "origin", "subject", "outcome", "code", "count", "detail")


def actions(
    *,
    since: Annotated[
        str, typer.Option("--since", help="Only from then on: 30m, 12h, 7d, or a date as in 2026-11-17.")
    ] = "",
    actor: Annotated[
        str, typer.Option("--actor", help="Only by this actor: a token's id, operator, a principal, a user.")
    ] = "",
    verb: Annotated[str | None, typer.Option("--verb", help="Only acts of this kind, as in token.created.")] = None,
    subject: Annotated[str, typer.Option("--subject", help="Only acts on this id.")] = "",
    after: Annotated[int, typer.Option("--after", min=0, help="`next` of the page before.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=PAGE)] = LIMIT,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write all that match to this new file, oldest first: .csv, else JSON lines."),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check that no row was changed, removed or added.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List who did what to what, when and from where, newest first.

    Every privileged act is here: tokens, logins, access, links, approvals, deletes, forgets, notes changed by an
    operator, replays, settings. So are refused attempts. With --verify the exit code is 3 when the trail was tampered
    with; keep the digest it prints on another machine to notice a trail that was made anew as a whole.

    \b
    Examples:
      holdfast audit actions
      holdfast audit actions --since 7d --verb token.created --json
      holdfast audit actions --export actions.csv
      holdfast audit actions --verify
    """
    from holdfast.audit.action_sql import list_actions
    from holdfast.cli.running import run

    async def work() -> int:
        from holdfast.audit.action import ActionFilter, act_named
        from holdfast.cli.opening import visiting

        async with visiting(data) as runtime:
            start = _since(since, runtime.clock.now())
            wanted = ActionFilter(actor=actor, act=act_named(verb), subject=subject, since=start)
            if verify:
                return await _verify(runtime.db, as_json=as_json)
            if export is not None:
                return await _export(runtime.db, wanted, export, as_json=as_json)
            return _show(await runtime.db.read(list_actions(wanted, after=after, limit=limit)), limit, as_json=as_json)

    run(work, as_json=as_json)


def _since(text: str, now: int) -> "Instant":
    """Raises `InvalidInput`."""
    from datetime import UTC, datetime

    from holdfast.kernel.errors import InvalidInput
    from holdfast.kernel.ids import Instant

    if not text:
        return Instant(0)
    if found := re.fullmatch(r"(\d{1,6})([mhd])", text):
        return Instant(now - int(found[1]) * UNITS_MS[found[2]])
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        why = f"--since {text[:40]!r}: write 30m, 12h, 7d, or a date as in 2026-11-17"
        raise InvalidInput(why, since=text[:40]) from error
    return Instant(int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


def _show(found: "Iterable[Action]", limit: int, *, as_json: bool) -> int:
    from holdfast.api.shapes.actions import actions_view
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK

    rows = list(found)
    if as_json:
        print_json(actions_view(rows, limit))
        return OK
    cells = [
        (
            when(one.at),
            one.verb,
            f"{one.by.id} ({one.by.label})" if one.by.label else one.by.id,
            one.subject,
            one.outcome.value if not one.code else f"{one.outcome.value}: {one.code}",
            one.count if one.count > 1 else "",
            one.by.origin,
        )
        for one in rows
    ]
    print_table(("when", "act", "who", "what", "outcome", "times", "from"), cells)
    return OK


async def _pages(db: "Database", wanted: "ActionFilter") -> "AsyncIterator[Action]":
    """All that match, oldest first."""
    from holdfast.audit.action_sql import list_actions

    after = 0
    while page := await db.read(list_actions(wanted, after=after, limit=PAGE, oldest_first=True)):
        for action in page:
            yield action
        after = page[-1].n


async def _verify(db: "Database", *, as_json: bool) -> int:
    from holdfast.audit.action import NO_DIGEST, broken_link
    from holdfast.audit.action_sql import list_actions, read_last_action
    from holdfast.cli.output import print_json
    from holdfast.cli.running import CONTRADICTION, OK

    first = await db.read(read_last_action())
    n, digest, wrong = 0, NO_DIGEST, None
    while wrong is None and (page := await db.read(list_actions(after=n, limit=PAGE, oldest_first=True))):
        wrong = broken_link(page, n=n, digest=digest)
        n, digest = page[-1].n, page[-1].digest
    last = await db.read(read_last_action())  # acts may have been added meanwhile
    if wrong is None and not (first[0] <= n <= last[0] and dict([first, last]).get(n, digest) == digest):
        wrong = f"the trail ends at action {n}, and its head is action {last[0]}"
    if as_json:
        print_json({"ok": wrong is None, "actions": n, "digest": digest.hex(), "wrong": wrong})
    else:
        print(f"{n} actions, whole; the newest digest is {digest.hex()}" if wrong is None else f"Not whole: {wrong}.")
    return OK if wrong is None else CONTRADICTION


async def _export(db: "Database", wanted: "ActionFilter", file: Path, *, as_json: bool) -> int:
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK

    rows = [one async for one in _pages(db, wanted)]
    _write(file, rows)
    if as_json:
        print_json({"file": str(file), "actions": len(rows)})
    else:
        print(f"{len(rows)} actions are in {file}.")
    return OK


def _write(file: Path, rows: "list[Action]") -> None:
    """A file that is there is not written over. Raises `InvalidInput`."""
    import csv
    import os

    import msgspec

    from holdfast.api.shapes.actions import action_view
    from holdfast.kernel.errors import InvalidInput

    try:
        handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError as error:
        raise InvalidInput(f"{file} exists already; name a new file", file=str(file)) from error
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}", file=str(file)) from error
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
        if file.suffix.lower() == ".csv":
            table = csv.writer(opened)
            table.writerow(COLUMNS)
            table.writerows(_cells(one) for one in rows)
        else:
            opened.writelines(msgspec.json.encode(action_view(one)).decode() + "\n" for one in rows)


def _cells(one: "Action") -> list[str | int]:
    from holdfast.audit.action import encode_detail
    from holdfast.cli.output import when

    by = one.by
    found = [by.kind.value, by.id, by.label, by.origin, one.subject, one.outcome.value, one.code]
    return [one.n, when(one.at), one.verb, *map(_inert, found), one.count, encode_detail(one.detail)]


def _inert(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: a sender chooses its own name."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else text
