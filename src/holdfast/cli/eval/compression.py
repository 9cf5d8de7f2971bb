"""`holdfast eval compression`: how many planted facts remain known after compression."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli.command import Invocation, command
from holdfast.cli.output import OK, WRONG, Heading, Output, Part, TextTable
from holdfast.cli.progress import progress

if TYPE_CHECKING:
    from holdfast.eval.compression import CompressionReport

Turns = Annotated[int, typer.Option("--turns", min=8, max=20_000, help="The length of the conversation.")]
Facts = Annotated[int, typer.Option("--facts", min=1, max=20_000, help="The number of planted facts.")]
Compressions = Annotated[int, typer.Option("--compressions", min=1, max=6, help="The number of compressions.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The seed of the generated conversation.")]
Recall = Annotated[
    bool, typer.Option("--recall/--no-recall", help="Also query memory for facts that the context lost.")
]
Baseline = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="An earlier report; no score may fall below it.")
]
TranscriptFile = Annotated[
    Path | None,
    typer.Option("--transcript", metavar="FILE", help="A real conversation in the chat format, instead of a made one."),
]
ModelName = Annotated[str, typer.Option("--model", metavar="NAME", help="The model that writes the summaries.")]


@command(data=False)
async def compression(
    _invocation: Invocation,
    *,
    turns: Turns = 240,
    facts: Facts = 84,
    compressions: Compressions = 6,
    seed: Seed = 1,
    recall: Recall = True,
    baseline: Baseline = None,
    model: ModelName = "practice",
    transcript: TranscriptFile = None,
) -> Output:
    """Measure what compression keeps.

    A conversation with planted facts grows in a temporary store and is compressed as in production. After each
    compression, every fact is looked up in the context of the model: the summary and the newest turns. Exit code 1 if a
    compression failed or, with --baseline, if a score fell.

    With --transcript, the conversation is that of a JSON file {"messages": [{"role": "user", "content": "..."}, ...]}.
    Nothing is planted: the facts are numbers, dates and names that it says exactly once, at most --facts of them. The
    table shows how many remain known for how many tokens, without and with recall. The report has none of its text.

    \b
    Examples:
      holdfast eval compression
      holdfast eval compression --transcript session.json --compressions 3
      holdfast eval compression --json > before.json
      holdfast eval compression --baseline before.json
    """
    from holdfast.eval.compression import EvaluationPlan, measure
    from holdfast.eval.compression.chat_transcript import plan_transcript, read_transcript
    from holdfast.eval.compression.report import check_comparable, fallen, read_baseline
    from holdfast.eval.compression.run import is_offline, model_named

    conversation = None
    if transcript is not None:
        conversation = plan_transcript(read_transcript(transcript), facts=facts, compressions=compressions)
        turns, facts, seed = len(conversation.exchanges), len(conversation.planted), 0
    plan = EvaluationPlan(turns=turns, facts=facts, compressions=compressions, seed=seed, recall=recall)
    summariser = model_named(model)
    before = read_baseline(baseline) if baseline is not None else None
    if before is not None:
        check_comparable(before, model=summariser.name, seed=seed, turns=turns, facts=facts, compressions=compressions)
    with progress("compressions", compressions) as advance:
        asked = None if is_offline(summariser) else summariser
        report = await measure(
            plan, summariser=summariser, asked=asked, conversation=conversation, progressed=lambda: advance(1)
        )
    fell = fallen(report, before) if before is not None else None
    view = {**msgspec.to_builtins(report), "ok": not (fell or report.failures), "fell": fell or []}
    ending = ["no score fell below the baseline"] if fell == [] else fell or []
    return Output(view, *_text(report), *report.failures, *ending, code=WRONG if fell or report.failures else OK)


def _text(report: "CompressionReport") -> list[Part]:
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
    kinds = [(kind, f"{one.score:.1%}", one.asked) for kind, one in report.kinds.items()]
    size = (
        f"{report.facts} facts in {report.turns} turns, seed {report.seed}; a window of {report.context_tokens} tokens"
    )
    far = [(one.summaries, f"{one.score:.1%}", one.asked) for one in report.distances]
    return [
        Heading(f"{report.score:.1%} of the facts are kept by {report.model} summaries"),
        f"{size}, summaries of at most {report.summary_tokens_max}; recall: {report.recall}\n",
        TextTable((*headings, *shown), rows),
        "",
        TextTable(("KIND", "KEPT", "ASKED"), kinds),
        "",
        TextTable(("SUMMARIES PASSED", "KEPT", "ASKED"), far),
    ]
