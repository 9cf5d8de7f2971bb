"""`holdfast memory review` and `revoke`: notes that were made in groups or by strangers, and taking them back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.memory import memory, run_visiting
from holdfast.cli.options import AgentName, Config, Data, Json

if TYPE_CHECKING:
    from holdfast.memory.notes_review import NoteForReview, Revoked
    from holdfast.runtime.runtime import Runtime

Author = Annotated[str, typer.Option("--author", help="Whose words the notes were made of, as in telegram:123456789.")]
Chat = Annotated[str, typer.Option("--chat", help="The chat the notes were made in, as `memory review` shows it.")]


@memory.command()
def review(agent: AgentName = None, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Show the notes that were made in a group or by a stranger.

    A stranger is an account of a chat platform that is neither on the allowlist nor admitted by name. These notes are
    shown to the model as data and marked; nobody has checked them.

    \b
    Examples:
      holdfast memory review
      holdfast memory review --json
    """

    async def work(runtime: "Runtime") -> int:
        from holdfast.cli.output import print_json, print_table
        from holdfast.cli.running import OK

        found = await runtime.review_notes(agent)
        if as_json:
            print_json({"notes": views(found)})
        elif found:
            print_table(("change", "when", "author", "chat", "mark", "note"), rows(found))
        else:
            print("Nothing to review.")
        return OK

    run_visiting(work, config, data, as_json=as_json)


@memory.command()
def revoke(
    *,
    author: Author = "",
    chat: Chat = "",
    agent: AgentName = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove every note that was made of one author's words, or in one chat.

    The notes are gone from the memory files, from every provider and from running conversations at their next turn.
    The accounts that are linked to the author count as the author. What was said stays; `holdfast forget` removes it.

    \b
    Examples:
      holdfast memory revoke --author telegram:123456789
      holdfast memory revoke --chat agent:main:telegram:group:-1001234567890
    """

    async def work(runtime: "Runtime") -> int:
        from holdfast.cli.output import print_json
        from holdfast.cli.running import OK

        done = await runtime.revoke_notes(agent, author=author, chat=chat.removeprefix("chat:"))
        if as_json:
            print_json({"removed": done.removed, "unattributed": views(done.unattributed)})
        else:
            _tell(done)
        return OK

    run_visiting(work, config, data, as_json=as_json)


def _tell(done: "Revoked") -> None:
    from holdfast.cli.output import print_table

    notes = "1 note was" if done.removed == 1 else f"{done.removed} notes were"
    print(f"{notes} removed.")
    if done.unattributed:
        print("Several people spoke where these were made, so they have no single author; --chat removes them:")
        print_table(("change", "when", "author", "chat", "mark", "note"), rows(done.unattributed))


def views(notes: "Sequence[NoteForReview]") -> list[dict[str, object]]:
    return [
        {
            "agent": one.agent,
            "about": one.subject,
            "version": one.entry.seq,
            "target": one.entry.target.value,
            "text": one.entry.text,
            "by": one.entry.by,
            "author": one.entry.principal or None,
            "chat": one.chat or None,
            "mark": one.mark.name.lower(),
            "at": one.entry.at,
        }
        for one in notes
    ]


def rows(notes: "Sequence[NoteForReview]") -> list[tuple[object, ...]]:
    from holdfast.cli.output import when

    return [
        (
            one.entry.seq,
            when(one.entry.at),
            one.entry.principal or "(several)",
            one.chat or "(private)",
            one.mark.value,
            one.entry.text,
        )
        for one in notes
    ]
