"""`holdfast eval recall`: how well the local memory finds past messages."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Invocation, command
from holdfast.cli.output import USAGE, Heading, Output, Part, TextTable, print_error
from holdfast.cli.progress import progress
from holdfast.kernel.errors import InvalidInput


@command(data=False)
async def recall(
    invocation: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The conversations and questions, as JSON.")],
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Use only this many conversations.", show_default="all")
    ] = None,
    haystack: Annotated[
        int,
        typer.Option(
            "--haystack", min=0, max=1_000_000, help="Put all conversations into one index among so many other lines."
        ),
    ] = 0,
) -> Output | int:
    """Measure how well the local memory finds past messages.

    Each conversation is written into an empty local index, and each question is asked of it. The score of a question is
    the share of its evidence among the first 5 (10) turns that are returned. Exit code 2 if FILE is malformed.

    With --haystack all conversations share one index with that many other lines, which are made of halves of the
    conversations' own messages. The same file and number give the same lines.

    \b
    FILE is a JSON list of conversations:
      [{"id": "1",
        "sessions": [{"date": "1:56 pm on 8 May, 2023",
                      "turns": [{"id": "a1", "speaker": "Ada", "text": "Hello!", "image": "a photo of a cat"}]}],
        "questions": [{"question": "What did Ada say?", "category": 4, "evidence": ["a1"]}]}]
    `image` is optional. Questions of category 5, and those without evidence, are skipped.

    \b
    Examples:
      holdfast eval recall conversations.json
      holdfast eval recall conversations.json --limit 1 --json
      holdfast eval recall conversations.json --haystack 30000
    """
    from holdfast.eval.recall import measure, read_conversations

    try:
        conversations = read_conversations(file)[:limit]
    except InvalidInput as error:
        print_error(error, as_json=invocation.as_json)
        return USAGE
    with progress("questions", sum(len(one.questions) for one in conversations)) as advance:
        report = await measure(conversations, lambda: advance(1), hay_lines=haystack)
    among = f" among {report.haystack} other lines" if report.haystack else ""
    text: list[Part] = [
        Heading(f"{report.at_5:.1%} of the evidence is among the first 5 turns, {report.at_10:.1%} among the first 10"),
        f"{report.questions} questions about {report.turns} turns of {report.conversations} conversations{among}\n",
    ]
    for heading, scores in (("CATEGORY", report.categories), ("CONVERSATION", report.by_conversation)):
        rows = [(name, f"{one.at_5:.1%}", f"{one.at_10:.1%}", one.questions) for name, one in scores.items()]
        text += [TextTable((heading, "@5", "@10", "QUESTIONS"), rows), ""]
    return Output(report, *text)
