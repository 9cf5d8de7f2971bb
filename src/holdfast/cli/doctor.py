"""`holdfast doctor`: what is wrong in the store of a data folder, and its repair."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.command import Invocation, command, home_of
from holdfast.cli.output import OK, WRONG, Output, when

if TYPE_CHECKING:
    from holdfast.repair.finding import StoreFinding
    from holdfast.runtime.doctor import StoreExamination

EVIDENCE_SHOWN = 5
Repair = Annotated[bool, typer.Option("--repair", help="Repair what can be repaired, after copying the folder.")]
Copy = Annotated[
    Path | None, typer.Option("--copy", help="Repair a copy of the data folder, in this new folder, instead of it.")
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        help="The new folder for the copy that is made before a repair.",
        show_default="DATA-before-repair-TIME, beside the data folder",
    ),
]


def _question(*, repair: bool, copy: Path | None, keep: Path | None) -> str:  # noqa: ARG001
    return "Repair the store? A copy of the folder is kept." if repair and copy is None else ""


@command(times=True, confirm=_question)
async def doctor(invocation: Invocation, *, repair: Repair = False, copy: Copy = None, keep: Keep = None) -> Output:
    """Examine the store of a data folder, and repair it on request.

    An examination only reads and may run beside a serving process. A repair needs the folder for itself, asks once,
    and copies the folder first; with --copy it repairs a copy and leaves the folder as it is. Every finding has its
    evidence, what it means, and what the repair does. Exit code 1 if something is wrong, or is left after a repair.

    \b
    Examples:
      holdfast doctor
      holdfast doctor --copy repaired
      holdfast doctor --repair --yes --json
    """
    from holdfast.cli.progress import progress_of_parts
    from holdfast.kernel.machine import SystemClock
    from holdfast.runtime import doctor as store_doctor

    folder = invocation.stored
    if not repair and copy is None:
        with progress_of_parts("doctor") as tell:
            found = store_doctor.examine(folder, tell)
        return Output(_view(found), *_text(found), code=OK if found.is_healthy else WRONG)
    if copy is not None:
        with progress_of_parts("repair") as tell:
            done = store_doctor.repair_copy(folder, home_of(copy), tell)
    else:
        beside = f"{folder.name}-before-repair-{datetime.fromtimestamp(SystemClock().now() / 1000, UTC):%Y%m%dT%H%M%SZ}"
        place = folder.absolute().with_name(beside) if keep is None else home_of(keep)
        with progress_of_parts("repair") as tell:
            done = store_doctor.repair(folder, tell, keep=place)
    view = {
        "before": _view(done.before),
        "repaired": dict(done.repaired),
        "copy": None if done.copy is None else str(done.copy),
        "notes": list(done.notes),
        "after": _view(done.after),
    }
    text = list(_text(done.before))
    if not done.before.is_healthy:
        counts = ", ".join(f"{n} {code}" for code, n in done.repaired.items())
        text.append(f"Repaired: {counts or 'none'}.")
        text += [f"Note: {note}." for note in done.notes]
        if done.copy is not None:
            text.append(f"The folder as it was: {done.copy}")
        text += ["", "After the repair:", *_text(done.after)]
    return Output(view, *text, code=OK if done.after.is_healthy else WRONG)


def _view(found: "StoreExamination") -> dict[str, object]:
    return {
        "folder": str(found.folder),
        "healthy": found.is_healthy,
        "at": found.at,
        "schema": found.schema,
        "served": found.served,
        "notes": list(found.notes),
        "findings": [
            {
                "code": one.fault.code,
                "severity": one.fault.gravity.value,
                "title": one.fault.title,
                "means": one.fault.means,
                "repair": one.fault.repair,
                "repairable": one.fault.is_repairable,
                "evidence": [{"subject": row.subject, "what": row.what, "since": row.since} for row in one.evidence],
                "more": one.is_cut,
            }
            for one in found.findings
        ],
    }


def _text(found: "StoreExamination") -> Iterator[str]:
    yield from found.notes
    if found.is_healthy:
        yield f"{found.folder}: nothing is wrong."
    for one in found.findings:
        yield from _finding(one)


def _finding(one: "StoreFinding") -> Iterator[str]:
    count = f"{len(one.evidence)}{' or more' if one.is_cut else ''}"
    yield f"{one.fault.gravity.value}: {one.fault.title} ({one.fault.code}, {count})"
    for row in one.evidence[:EVIDENCE_SHOWN]:
        since = f", since {when(row.since)}" if row.since else ""
        yield f"    {row.subject}{': ' if row.what else ''}{row.what}{since}"
    if len(one.evidence) > EVIDENCE_SHOWN:
        yield "    … (--json lists more)"
    yield f"  means:  {one.fault.means}"
    yield f"  repair: {one.fault.repair}"
