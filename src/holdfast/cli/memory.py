"""`holdfast memory`: the notes of an agent, their history, and undo. `holdfast recall`: what a turn would recall."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.api.shapes.memory import memories_view
from holdfast.cli import memory_views as views
from holdfast.cli.command import AgentName, Invocation, Limit, Runtime, command, command_group, home_of, visitor
from holdfast.cli.output import OK, WRONG, Output, TextTable, when
from holdfast.cli.progress import progress
from holdfast.kernel.errors import InvalidInput, MemoryWriteBlocked
from holdfast.memory.delivery import Delivered
from holdfast.memory.files.hermes import import_hermes
from holdfast.memory.notes import MemoryBatch, MemoryOutcome, MemoryUndo, MemoryVerb, NotApplied, NoteChange, Target
from holdfast.memory.notes_service import all_subjects
from holdfast.memory.notes_sql import list_memory_operations, read_memory

Shared = Annotated[
    bool, typer.Option("--shared", help="Share the note with everyone who talks to the agent (the default).")
]
About = Annotated[
    str,
    typer.Option(
        "--about", help="The owner: a person, or a chat as `memory subjects` lists it.", show_default="shared"
    ),
]
TargetFile = Annotated[Target, typer.Option("--target", help="The file: MEMORY.md or USER.md.")]
EntryArgument = Annotated[
    str, typer.Argument(metavar="ENTRY", help="The number of the note, or text that no other note contains.")
]
TextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="The note.")]

memory = command_group("memory", "Show and change the notes of an agent.")


@memory.command()
@visitor(config=True, times=True)
async def show(runtime: Runtime, agent: AgentName = None, about: About = "") -> Output:
    """Show the current notes.

    \b
    Examples:
      holdfast memory show
      holdfast memory show --about ada --json
    """
    held = await runtime.db.read(read_memory(runtime.named(agent or None), about))
    return Output(views.memory_view(held), *views.memory_text(held))


@memory.command()
@command(config=True)
async def add(
    invocation: Invocation,
    *,
    text: TextArgument,
    target: TargetFile = Target.MEMORY,
    agent: AgentName = None,
    about: About = "",
    shared: Shared = False,
) -> Output:
    """Add a note. A note that already exists is not added again.

    Without --about, or with --shared, everyone who talks to the agent sees the note.

    \b
    Examples:
      holdfast memory add --shared "Deploys happen on Fridays."
      holdfast memory add "Has a cat called Byron." --target user --about ada
    """
    if shared and about:
        raise typer.BadParameter("--shared and --about exclude each other; use one of them")
    return await _change(invocation, MemoryVerb.ADD, target, agent, about, text=text)


@memory.command()
@command(config=True)
async def replace(
    invocation: Invocation,
    *,
    entry: EntryArgument,
    text: TextArgument,
    target: TargetFile = Target.MEMORY,
    agent: AgentName = None,
    about: About = "",
) -> Output:
    """Replace a note.

    \b
    Examples:
      holdfast memory replace "Tea, not coffee." "Coffee after all."
    """
    return await _change(invocation, MemoryVerb.REPLACE, target, agent, about, entry=entry, text=text)


@memory.command()
@command(config=True)
async def remove(
    invocation: Invocation,
    entry: EntryArgument,
    target: TargetFile = Target.MEMORY,
    agent: AgentName = None,
    about: About = "",
) -> Output:
    """Remove a note.

    \b
    Examples:
      holdfast memory remove "Tea, not coffee."
    """
    return await _change(invocation, MemoryVerb.REMOVE, target, agent, about, entry=entry)


@memory.command()
@command(config=True)
async def move(
    invocation: Invocation,
    *,
    entry: EntryArgument,
    to: Annotated[str, typer.Option("--to", help="The new owner of the note.", show_default="shared")] = "",
    target: TargetFile = Target.MEMORY,
    agent: AgentName = None,
    about: About = "",
) -> Output:
    """Give a note to another person, or share it with everyone.

    A note that the model wrote belongs to the person or chat of that conversation. Only an operator can share it.

    \b
    Examples:
      holdfast memory move "Deploys happen on Fridays." --about ada
      holdfast memory move 4 --target user --about ada --to bob
    """
    return await _change(invocation, MemoryVerb.REMOVE, target, agent, about, entry=entry, to=to)


@memory.command()
@visitor(config=True)
async def subjects(runtime: Runtime, agent: AgentName = None) -> Output:
    """List the owners of an agent's notes: people, chats, and everyone.

    \b
    Examples:
      holdfast memory subjects
      holdfast memory subjects --json
    """
    name = runtime.named(agent or None)
    memories = [await runtime.db.read(read_memory(name, one)) for one in await all_subjects(runtime.db, name)]
    view = {"subjects": [{"about": one.subject, "notes": len(one.entries)} for one in memories]}
    rows = ((one.subject or "(everyone)", len(one.entries)) for one in memories)
    return Output(view, TextTable(("about", "notes"), rows))


@memory.command()
@visitor(config=True, times=True)
async def history(
    runtime: Runtime,
    agent: AgentName = None,
    about: About = "",
    after: Annotated[int, typer.Option("--after", min=0, help="The last change of the previous page.")] = 0,
    limit: Limit = 200,
) -> Output:
    """Show every change, oldest first.

    \b
    Examples:
      holdfast memory history
      holdfast memory history --json
    """
    name = runtime.named(agent or None)
    found = await runtime.db.read(list_memory_operations(name, about, after=after, limit=limit))
    return Output({"changes": [views.operation_view(one) for one in found]}, views.history_table(found))


@memory.command()
@command(config=True)
async def undo(
    invocation: Invocation,
    change: Annotated[int, typer.Argument(metavar="CHANGE", min=1, help="The number of the change in the history.")],
    agent: AgentName = None,
    about: About = "",
) -> Output:
    """Undo one change. To restore it, undo the change that this command makes.

    \b
    Examples:
      holdfast memory undo 12
    """
    async with invocation.visiting(act="memory.changed" if about else "memory.shared") as runtime:
        wish = MemoryUndo(agent=runtime.named(agent or None), subject=about, seq=change)
        return _shown(await runtime.apply_memory(wish))


@memory.command(name="import")
@visitor(config=True, make=True)
async def import_(
    runtime: Runtime,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The home folder of Hermes, or its `memories`.")],
    agent: AgentName = None,
    about: About = "",
) -> Output:
    """Import MEMORY.md and USER.md of Hermes. Repeating the import adds no entry twice.

    \b
    Examples:
      holdfast memory import ~/.hermes
    """
    found = import_hermes(home_of(folder), runtime.named(agent or None), subject=about)
    done = [views.ImportedEntry.of(one.file, one.n, await runtime.apply_memory(one.batch)) for one in found]
    rows = ((one.file, one.entry, one.state, one.reason) for one in done)
    table = TextTable(("file", "entry", "state", "reason"), rows)
    return Output({"entries": done}, table, code=OK if all(one.state != "refused" for one in done) else WRONG)


@memory.command()
@visitor(config=True, act="provider.migrated")
async def migrate(runtime: Runtime, agent: AgentName = None, about: About = "") -> Output:
    """Copy the notes and SOUL.md to providers that support it, such as Honcho. Each file is copied once.

    \b
    Examples:
      holdfast memory migrate
    """
    with progress("migrate"):
        moved = await runtime.migrate_memory(agent, about)
    files = [
        {"provider": provider, "file": file, "state": "kept", "why": outcome.receipt}
        if isinstance(outcome, Delivered)
        else {"provider": provider, "file": file, "state": "not kept", "why": outcome.reason}
        for provider, outcomes in moved.items()
        for file, outcome in outcomes.items()
    ]
    table = TextTable(("provider", "file", "state", "why"), (list(one.values()) for one in files))
    return Output({"files": files}, table, code=OK if all(one["state"] == "kept" for one in files) else WRONG)


@memory.command()
@visitor(config=True, times=True)
async def review(runtime: Runtime, agent: AgentName = None) -> Output:
    """List notes that were made in a group or by an unknown sender.

    An unknown sender is an account of a chat platform that is neither on the allowlist nor admitted by name. These
    notes are unverified; the model sees them marked as data.

    \b
    Examples:
      holdfast memory review
      holdfast memory review --json
    """
    found = await runtime.review_notes(agent)
    return Output(
        {"notes": views.review_views(found)}, views.review_table(found) if found else "There are no notes to review."
    )


@memory.command()
@visitor(config=True, times=True)
async def revoke(
    runtime: Runtime,
    author: Annotated[
        str, typer.Option("--author", help="The author of the original messages, such as telegram:123456789.")
    ] = "",
    chat: Annotated[str, typer.Option("--chat", help="The chat of the notes, as `memory review` shows it.")] = "",
    agent: AgentName = None,
) -> Output:
    """Remove every note from one author's messages, or from one chat.

    The notes are removed from the memory files, from every provider, and from running conversations at their next turn.
    Linked accounts count as the same author. The messages themselves stay; `holdfast forget` erases them.

    \b
    Examples:
      holdfast memory revoke --author telegram:123456789
      holdfast memory revoke --chat agent:main:telegram:group:-1001234567890
    """
    done = await runtime.revoke_notes(agent, author=author, chat=chat.removeprefix("chat:"))
    view = {"removed": done.removed, "unattributed": views.review_views(done.unattributed)}
    text = f"{'1 note was' if done.removed == 1 else f'{done.removed} notes were'} removed."
    if not done.unattributed:
        return Output(view, text)
    more = "These notes come from several people and have no single author; --chat removes them:"
    return Output(view, text, more, views.review_table(done.unattributed))


@visitor(config=True, times=True)
async def recall(
    runtime: Runtime,
    text: Annotated[str, typer.Argument(help="The query.")],
    agent: AgentName = None,
    chat: Annotated[str, typer.Option("--chat", help="Query as if in this chat.")] = "terminal",
    sender: Annotated[
        str | None, typer.Option("--sender", help="Query as if from this sender.", show_default="the chat")
    ] = None,
) -> Output:
    """Query the memory of an agent, as a turn does.

    \b
    Examples:
      holdfast recall "what is the cat called?"
      holdfast recall "the invoice" --agent bookkeeper --chat office --json
    """
    view = memories_view(await runtime.recall(text, agent=agent, chat=chat, sender=sender))
    rows = ((when(one.at), one.speaker, one.provider, one.text) for one in view.memories)
    table = TextTable(("when", "who", "from", "memory"), rows)
    return Output(view, table, *(f"skipped: {why}" for why in view.skipped))


async def _change(
    invocation: Invocation,
    verb: MemoryVerb,
    target: Target,
    agent: str | None,
    about: str,
    *,
    entry: str = "",
    text: str = "",
    to: str | None = None,
) -> Output:
    """Change a note; with `to`, give it to another owner."""
    number = int(entry) if entry.isascii() and entry.isdigit() and len(entry) < 10 else None
    change = NoteChange(verb=verb, target=target, text=text, old=entry, version=number)
    act = "memory.changed" if (about if to is None else to) else "memory.shared"
    async with invocation.visiting(make=verb is MemoryVerb.ADD, act=act) as runtime:
        origin = runtime.ports.new_id("cli")
        name = runtime.named(agent or None)
        batch = MemoryBatch(agent=name, subject=about, origin=origin, changes=(change,), by="user")
        return _shown(await (runtime.apply_memory(batch) if to is None else runtime.move_memory(batch, to)))


def _shown(outcome: MemoryOutcome) -> Output:
    """Raises `InvalidInput` or `MemoryWriteBlocked` for a change that was not applied."""
    if isinstance(outcome, NotApplied):
        kind = MemoryWriteBlocked if outcome.code == "blocked" else InvalidInput
        raise kind(f"{outcome.code}: {outcome.reason}", reason=outcome.code)
    return Output({"changes": list(outcome.seqs), "repeated": outcome.repeated}, views.outcome_text(outcome))
