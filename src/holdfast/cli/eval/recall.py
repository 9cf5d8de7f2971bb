"""`holdfast eval recall`: how well the local memory finds what was said."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.eval.recall import RecallReport

File = Annotated[Path, typer.Argument(metavar="FILE", help="The conversations and questions, as JSON.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Use only so many conversations.", show_default="all of them")
]


def recall(file: File, limit: Limit = None, as_json: Json = False) -> None:
    """Measure how well the local memory finds what was said.

    Each conversation goes into an empty local index; each question is asked of it. The score of a question is the
    share of its evidence among the first 5 (10) turns that come back. Exit code 2 when FILE is not as it should be.

    \b
    FILE is a JSON list of conversations:
      [{"id": "1",
        "sessions": [{"date": "1:56 pm on 8 May, 2023",
                      "turns": [{"id": "a1", "speaker": "Ada", "text": "Hello!", "image": "a photo of a cat"}]}],
        "questions": [{"question": "What did Ada say?", "category": 4, "evidence": ["a1"]}]}]
    `image` may be missing. Questions of category 5, and those without evidence, are not asked.

    \b
    Examples:
      holdfast eval recall conversations.json
      holdfast eval recall conversations.json --limit 1 --json
    """
    from holdfast.cli.running import run

    run(lambda: _recall(file, limit, as_json=as_json), as_json=as_json)


async def _recall(file: Path, limit: int | None, *, as_json: bool) -> int:
    from holdfast.cli.output import print_error, print_json
    from holdfast.cli.running import OK, USAGE
    from holdfast.eval.recall import measure, read_conversations
    from holdfast.kernel.errors import InvalidInput

    try:
        conversations = read_conversations(file)[:limit]
    except InvalidInput as error:
        print_error(error, as_json=as_json)
        return USAGE
    with _progress(sum(len(one.questions) for one in conversations)) as progressed:
        report = await measure(conversations, progressed)
    if as_json:
        print_json(report)
    else:
        _print(report)
    return OK


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    from holdfast.cli.output import is_terminal

    if not is_terminal():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("questions"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _print(report: "RecallReport") -> None:
    from holdfast.cli.output import print_heading, print_table

    print_heading(
        f"{report.at_5:.1%} of the evidence is among the first 5 turns, {report.at_10:.1%} among the first 10"
    )
    print(f"{report.questions} questions about {report.turns} turns of {report.conversations} conversations\n")
    for heading, scores in (("CATEGORY", report.categories), ("CONVERSATION", report.by_conversation)):
        rows = [(name, f"{one.at_5:.1%}", f"{one.at_10:.1%}", one.questions) for name, one in scores.items()]
        print_table((heading, "@5", "@10", "QUESTIONS"), rows)
        print()
