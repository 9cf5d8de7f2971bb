"""`holdfast memory`: an agent's own notes. What holds, every change ever made, and the way back."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from holdfast.cli.options import AgentName, Config, Data, Json, TargetName

if TYPE_CHECKING:
    from holdfast.memory.delivery import Outcome
    from holdfast.memory.notes import MemoryOutcome
    from holdfast.runtime.runtime import Runtime

LIMIT = 200
Shared = Annotated[
    bool, typer.Option("--shared", help="Share it with everybody who talks to the agent, which is also the default.")
]
About = Annotated[
    str, typer.Option("--about", help="Whose notes: a person, or a chat as `subjects` names it.", show_default="shared")
]
Where = Annotated[TargetName, typer.Option("--target", help="Which of the two files.")]
Entry = Annotated[str, typer.Argument(metavar="ENTRY", help="A part that only this entry has, or its number.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The note.")]

memory = typer.Typer(
    name="memory",
    help="Show and change an agent's own notes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@memory.command()
def show(
    agent: AgentName = None, about: About = "", config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Show the notes that hold now.

    \b
    Examples:
      holdfast memory show
      holdfast memory show --about ada --json
    """
    from holdfast.cli.memory_views import memory_view, print_memory

    async def work(runtime: "Runtime") -> int:
        from holdfast.cli.output import print_json
        from holdfast.cli.running import OK
        from holdfast.inbox.address import agent_name

        held = await runtime.memory(agent_name(agent or runtime.default_agent), about)
        if as_json:
            print_json(memory_view(held))
        else:
            print_memory(held)
        return OK

    run_visiting(work, config, data, as_json=as_json)


@memory.command()
def add(
    text: Text,
    *,
    target: Where = TargetName.MEMORY,
    agent: AgentName = None,
    about: About = "",
    shared: Shared = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Add a note; one that is there already stays as it is.

    Without --about everybody who talks to the agent is shown it; --shared says the same in so many words.

    \b
    Examples:
      holdfast memory add --shared "Deploys happen on Fridays."
      holdfast memory add "Has a cat called Byron." --target user --about ada
    """
    if shared and about:
        raise typer.BadParameter("a note is shared with everybody or about one person; leave out one of the two")
    _change("add", target, (agent, about), (config, data), text=text, as_json=as_json)


@memory.command()
def replace(
    entry: Entry,
    text: Text,
    *,
    target: Where = TargetName.MEMORY,
    agent: AgentName = None,
    about: About = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Replace a note by another.

    \b
    Examples:
      holdfast memory replace "Tea, not coffee." "Coffee after all."
    """
    _change("replace", target, (agent, about), (config, data), entry=entry, text=text, as_json=as_json)


@memory.command()
def remove(
    entry: Entry,
    *,
    target: Where = TargetName.MEMORY,
    agent: AgentName = None,
    about: About = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove a note.

    \b
    Examples:
      holdfast memory remove "Tea, not coffee."
    """
    _change("remove", target, (agent, about), (config, data), entry=entry, as_json=as_json)


@memory.command()
def move(
    entry: Entry,
    *,
    to: Annotated[str, typer.Option("--to", help="Whose it shall be.", show_default="everybody's")] = "",
    target: Where = TargetName.MEMORY,
    agent: AgentName = None,
    about: About = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Give a note to somebody else, or share it with everybody.

    A note that the model made belongs to the person or the chat it was made in. Only an operator shares it.

    \b
    Examples:
      holdfast memory move "Deploys happen on Fridays." --about ada
      holdfast memory move 4 --target user --about ada --to bob
    """
    _change("move", target, (agent, about), (config, data), entry=entry, to=to, as_json=as_json)


@memory.command()
def subjects(agent: AgentName = None, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Show whose notes an agent keeps: those shared with everybody, people's, chats'.

    \b
    Examples:
      holdfast memory subjects
      holdfast memory subjects --json
    """

    async def work(runtime: "Runtime") -> int:
        from holdfast.cli.memory_views import print_subjects, subjects_view
        from holdfast.cli.output import print_json
        from holdfast.cli.running import OK
        from holdfast.inbox.address import agent_name

        name = agent_name(agent or runtime.default_agent)
        found: list[str] = []
        while page := await runtime.memory_subjects(name, after=found[-1] if found else None):
            found += page
        memories = [await runtime.memory(name, subject) for subject in found]
        if as_json:
            print_json(subjects_view(memories))
        else:
            print_subjects(memories)
        return OK

    run_visiting(work, config, data, as_json=as_json)


@memory.command()
def history(
    *,
    agent: AgentName = None,
    about: About = "",
    after: Annotated[int, typer.Option("--after", min=0, help="The last change of the page before.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = LIMIT,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show every change, oldest first.

    \b
    Examples:
      holdfast memory history
      holdfast memory history --json
    """
    from holdfast.cli.memory_views import history_view, print_history

    async def work(runtime: "Runtime") -> int:
        from holdfast.cli.output import print_json
        from holdfast.cli.running import OK
        from holdfast.inbox.address import agent_name

        found = await runtime.memory_history(
            agent_name(agent or runtime.default_agent), about, after=after, limit=limit
        )
        if as_json:
            print_json(history_view(found))
        else:
            print_history(found)
        return OK

    run_visiting(work, config, data, as_json=as_json)


@memory.command()
def undo(
    change: Annotated[int, typer.Argument(metavar="CHANGE", min=1, help="Its number in the history.")],
    *,
    agent: AgentName = None,
    about: About = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take one change back. Undo that change again to have it after all.

    \b
    Examples:
      holdfast memory undo 12
    """

    async def work(runtime: "Runtime") -> int:
        from holdfast.inbox.address import agent_name
        from holdfast.memory.notes import MemoryUndo

        wish = MemoryUndo(agent=agent_name(agent or runtime.default_agent), subject=about, seq=change)
        return _told(await runtime.undo_memory(wish), as_json=as_json)

    run_visiting(work, config, data, as_json=as_json, act="memory.changed" if about else "memory.shared")


@memory.command(name="import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Hermes' home folder, or its `memories`.")],
    *,
    agent: AgentName = None,
    about: About = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Import MEMORY.md and USER.md of Hermes. Every entry comes over once, however often this is run.

    \b
    Examples:
      holdfast memory import ~/.hermes
    """

    async def work(runtime: "Runtime") -> int:
        from holdfast.cli.memory_views import ImportedEntry, print_import
        from holdfast.cli.opening import home_of
        from holdfast.cli.output import print_json
        from holdfast.cli.running import OK, WRONG
        from holdfast.inbox.address import agent_name
        from holdfast.memory.files.hermes import import_hermes

        found = import_hermes(home_of(folder), agent_name(agent or runtime.default_agent), subject=about)
        done = [ImportedEntry.of(one.file, one.n, await runtime.apply_memory(one.batch)) for one in found]
        if as_json:
            print_json({"entries": done})
        else:
            print_import(done)
        return OK if all(one.state != "refused" for one in done) else WRONG

    run_visiting(work, config, data, as_json=as_json, make=True)


@memory.command()
def migrate(
    *,
    agent: AgentName = None,
    about: About = "",
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Bring the notes and SOUL.md to providers that can take them over, such as Honcho. Each file goes once.

    \b
    Examples:
      holdfast memory migrate
    """

    async def work(runtime: "Runtime") -> int:
        from holdfast.cli.output import print_json, print_table
        from holdfast.cli.running import OK, WRONG
        from holdfast.memory.delivery import Delivered

        moved = await runtime.migrate_memory(agent, about)
        rows = [
            (provider, file, "kept" if isinstance(outcome, Delivered) else "not kept", _why(outcome))
            for provider, files in moved.items()
            for file, outcome in files.items()
        ]
        if as_json:
            print_json({"files": [dict(zip(("provider", "file", "state", "why"), row, strict=True)) for row in rows]})
        else:
            print_table(("provider", "file", "state", "why"), rows)
        return OK if all(row[2] == "kept" for row in rows) else WRONG

    run_visiting(work, config, data, as_json=as_json, act="provider.migrated")


def _why(outcome: "Outcome") -> str:
    from holdfast.memory.delivery import Delivered

    return outcome.receipt if isinstance(outcome, Delivered) else outcome.reason


def _change(
    verb: str,
    target: str,
    whose: tuple[str | None, str],
    files: tuple[Path | None, Path | None],
    *,
    entry: str = "",
    text: str = "",
    to: str = "",
    as_json: bool,
) -> NoReturn:
    agent, about = whose

    async def work(runtime: "Runtime") -> int:
        from holdfast.inbox.address import agent_name
        from holdfast.kernel.ids import make_id
        from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target

        number = int(entry) if entry.isascii() and entry.isdigit() and len(entry) < 10 else None
        made = MemoryVerb.REMOVE if verb == "move" else MemoryVerb(verb)
        change = NoteChange(verb=made, target=Target(target), text=text, old=entry, version=number)
        origin = make_id("cli", runtime.clock.now(), runtime.entropy.bits(80))
        batch = MemoryBatch(
            agent=agent_name(agent or runtime.default_agent), subject=about, origin=origin, changes=(change,), by="user"
        )
        if verb == "move":
            return _told(await runtime.move_memory(batch, to), as_json=as_json)
        return _told(await runtime.apply_memory(batch), as_json=as_json)

    act = "memory.changed" if (to if verb == "move" else about) else "memory.shared"
    run_visiting(work, *files, as_json=as_json, make=verb == "add", act=act)


def _told(outcome: "MemoryOutcome", *, as_json: bool) -> int:
    """Say what became of a change. Raises what was wrong with it."""
    from holdfast.cli.memory_views import outcome_text
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.kernel.errors import InvalidInput, MemoryWriteBlocked
    from holdfast.memory.notes import NotApplied

    if isinstance(outcome, NotApplied):
        kind = MemoryWriteBlocked if outcome.code == "blocked" else InvalidInput
        raise kind(f"{outcome.code}: {outcome.reason}", reason=outcome.code)
    if as_json:
        print_json({"changes": list(outcome.seqs), "repeated": outcome.repeated})
    else:
        print(outcome_text(outcome))
    return OK


def run_visiting(
    work: Callable[["Runtime"], Awaitable[int]],
    config: Path | None,
    data: Path | None,
    *,
    as_json: bool,
    make: bool = False,
    act: str = "",
) -> NoReturn:
    from holdfast.cli.running import run

    async def visit() -> int:
        from holdfast.cli.opening import visiting

        async with visiting(data, config, make=make, act=act) as runtime:
            return await work(runtime)

    run(visit, as_json=as_json)
