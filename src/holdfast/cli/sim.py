"""`holdfast sim`: simulate histories with faults and verify that nothing is lost."""

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from holdfast.cli.command import Json
from holdfast.cli.output import INTERRUPTED, OK, TERMINATED, WRONG, Heading, Output, Part, TextTable
from holdfast.cli.progress import progress

if TYPE_CHECKING:
    from holdfast.testing.history import Verdict


def sim(  # noqa: PLR0917 - each is an option of the command line
    histories: Annotated[int, typer.Option("--histories", min=1, help="The number of random histories.")] = 200,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="The seed of the first history; each further one has the next number.")
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Worker processes.", show_default="one per core")
    ] = None,
    mutants: Annotated[
        bool, typer.Option("--mutants/--no-mutants", help="Also run the mutants, each of which breaks one guarantee.")
    ] = True,
    replay: Annotated[
        int | None, typer.Option("--replay", metavar="SEED", help="Print the events of one history.")
    ] = None,
    json: Json = False,
) -> None:
    """Simulate crashes and verify that nothing is lost.

    Each history is generated from a seed: processes die and pause, responses are lost, models fail. Exit code 0 only if
    no invariant was broken and every mutant was detected.

    \b
    Examples:
      holdfast sim --histories 2000 --seed 7
      holdfast sim --replay 4711
      holdfast sim --histories 200 --no-mutants --json
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _replay(replay) if replay is not None else _simulate(range(seed, seed + histories), jobs, mutants, json)
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)


def _terminate(*_: object) -> NoReturn:
    """End the run like an error would, so that its worker processes end with it."""
    sys.exit(TERMINATED)


def _replay(seed: int) -> int:
    from holdfast.testing.story import tell

    return WRONG if tell(seed, print).violations else OK


def _simulate(seeds: range, jobs: int | None, mutants: bool, as_json: bool) -> int:
    from holdfast.testing.campaign import report_of, run_campaign
    from holdfast.testing.mutant import RARE_FROM
    from holdfast.testing.mutants import MUTANTS

    tried = [name for name, one in MUTANTS.items() if not one.rare or len(seeds) >= RARE_FROM]
    names = tried if mutants else []
    with progress("histories and mutants", len(seeds) + len(names)) as advance:
        report = report_of(run_campaign(seeds, jobs=jobs, mutants=names, progressed=advance, found=_tell))
    Output(report, *_text(report)).print(as_json=as_json)
    return OK if report["ok"] else WRONG


def _tell(verdict: "Verdict") -> None:
    """Report a broken invariant at once, since the run may take hours."""
    for what in verdict.violations:
        print(f"seed {verdict.seed} broke {what.invariant}: {what.what}", file=sys.stderr, flush=True)


def _text(report: dict[str, Any]) -> list[Part]:
    faults = {"kills": report["kills"], "pauses": report["pauses"], "stops": report["stops"], **report["crashes"]}
    text: list[Part] = [
        Heading(f"{report['histories']} histories, {report['steps']} steps, digest {report['digest']}"),
        ", ".join(f"{count} {name}" for name, count in faults.items()),
    ]
    for found in report["violations"]:
        text.append(Heading(f"seed {found['seed']} (holdfast sim --replay {found['seed']})"))
        text += [f"  {what['invariant']}: {what['what']}" for what in found["violations"]]
        text += [f"    {part}" for part in found["plan"] or ()]
    text.append(f"{len(report['violations'])} histories broke an invariant")
    text += _coverage(report["coverage"])
    if report["mutants"]:
        rows = ((one["name"], one["killed"], one["histories"], one["budget"], one["seen"]) for one in report["mutants"])
        text.append(TextTable(("MUTANT", "KILLED", "HISTORIES", "BUDGET", "SEEN AS"), rows))
    return text


def _coverage(coverage: dict[str, Any]) -> list[str | Heading]:
    verbs, loops = coverage["verbs"], coverage["loops"]
    unstruck = verbs["never_struck"]
    return [
        Heading(f"coverage over {coverage['histories']} histories"),
        f"{verbs['percent']} % of the store's verbs ({verbs['reached']} of {verbs['known']})",
        f"{verbs['reached'] - len(unstruck)} of these met a fault; not: {', '.join(unstruck) or 'none'}",
        f"{loops['percent']} % of the loops' lines ({loops['lines_reached']} of {loops['lines']})",
        *(
            f"  not reached: {one['name']} ({one['left_out_because'] or 'no reason is given'})"
            for one in (*verbs["missing"], *loops["missing"])
        ),
    ]
