"""`holdfast eval compression`: plant facts, compress, and see how many can still be known."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.eval.compression import CompressionReport, EvaluationPlan

Turns = Annotated[int, typer.Option("--turns", min=8, max=20_000, help="How long the conversation is.")]
Facts = Annotated[int, typer.Option("--facts", min=1, max=20_000, help="How many facts are planted in it.")]
Compressions = Annotated[int, typer.Option("--compressions", min=1, max=6, help="How often it is compressed.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed makes another conversation.")]
Recall = Annotated[bool, typer.Option("--recall/--no-recall", help="Also ask memory for what the context lost.")]
Baseline = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="A report from before that no score may fall below.")
]
ModelName = Annotated[str, typer.Option("--model", metavar="NAME", help="The model that writes the summaries.")]


def compression(  # noqa: PLR0917 - each is an option of the command line
    turns: Turns = 240,
    facts: Facts = 84,
    compressions: Compressions = 6,
    seed: Seed = 1,
    recall: Recall = True,
    baseline: Baseline = None,
    model: ModelName = "practice",
    json: Json = False,
) -> None:
    """Measure what compression keeps.

    A conversation with planted facts grows in a temporary store and is compressed as in service. After each
    compression every fact is looked for in what the model would be sent: the summary and the newest turns. Exit code
    1 when a compression failed or, with --baseline, when a score fell.

    \b
    Examples:
      holdfast eval compression
      holdfast eval compression --json > before.json
      holdfast eval compression --baseline before.json
    """
    from holdfast.cli.running import run
    from holdfast.eval.compression import EvaluationPlan

    plan = EvaluationPlan(turns=turns, facts=facts, compressions=compressions, seed=seed, recall=recall)
    run(lambda: _compression(plan, model, baseline, as_json=json), as_json=json)


async def _compression(plan: "EvaluationPlan", name: str, file: Path | None, *, as_json: bool) -> int:
    from holdfast.cli.running import OK, WRONG
    from holdfast.eval.compression import measure
    from holdfast.eval.compression.report import check_comparable, fallen, read_baseline
    from holdfast.eval.compression.run import is_offline, model_named

    model = model_named(name)
    baseline = read_baseline(file) if file is not None else None
    if baseline is not None:
        check_comparable(
            baseline,
            model=model.name,
            seed=plan.seed,
            turns=plan.turns,
            facts=plan.facts,
            compressions=plan.compressions,
        )
    with _progress(plan.compressions) as progressed:
        asked = None if is_offline(model) else model
        report = await measure(plan, summariser=model, asked=asked, progressed=progressed)
    fell = fallen(report, baseline) if baseline is not None else None
    _tell(report, fell, as_json=as_json)
    return WRONG if fell or report.failures else OK


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    from holdfast.cli.output import is_terminal

    if not is_terminal():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("compressions"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _tell(report: "CompressionReport", fell: list[str] | None, *, as_json: bool) -> None:
    import msgspec

    from holdfast.cli.output import print_json

    if as_json:
        print_json({**msgspec.to_builtins(report), "ok": not (fell or report.failures), "fell": fell or []})
        return
    _print(report)
    for failure in report.failures:
        print(failure)
    for sentence in fell or ():
        print(sentence)
    if fell == []:
        print("no score fell below the baseline")


def _print(report: "CompressionReport") -> None:
    from holdfast.cli.output import print_heading, print_table

    print_heading(f"{report.score:.1%} of the facts are kept by {report.model} summaries")
    print(
        f"{report.facts} facts in {report.turns} turns, seed {report.seed}; a window of {report.context_tokens} "
        f"tokens, summaries of at most {report.summary_tokens_max}; recall: {report.recall}\n"
    )
    headings = ("COMPRESSIONS", "KEPT", "IN SUMMARY", "IN TAIL", "STALE", "LOST", "BEFORE", "AFTER", "SUMMARY")
    extra = {
        "WITH RECALL": [one.score_with_recall for one in report.rounds],
        "ANSWERED": [one.answered for one in report.rounds],
    }
    shown = {name: values for name, values in extra.items() if any(value is not None for value in values)}
    rows = [
        (
            *(one.compressions, f"{one.score:.1%}", one.in_summary, one.in_tail, one.stale, one.lost),
            *(one.tokens_before, one.tokens_after, one.summary_tokens),
            *(f"{values[n]:.1%}" for values in shown.values()),
        )
        for n, one in enumerate(report.rounds)
    ]
    print_table((*headings, *shown), rows)
    print()
    print_table(
        ("KIND", "KEPT", "ASKED"), [(kind, f"{one.score:.1%}", one.asked) for kind, one in report.kinds.items()]
    )
    print()
    far = [(one.summaries, f"{one.score:.1%}", one.asked) for one in report.distances]
    print_table(("SUMMARIES PASSED", "KEPT", "ASKED"), far)
