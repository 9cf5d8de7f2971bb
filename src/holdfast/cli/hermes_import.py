"""`holdfast hermes import`: bring the history of Hermes Agent to Holdfast."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli.command import AgentName, Invocation, command
from holdfast.cli.memory_views import ImportedEntry
from holdfast.cli.output import OK, WRONG, Heading, Output, Part, TextTable, facts, is_terminal
from holdfast.cli.progress import progress

if TYPE_CHECKING:
    from holdfast.hermes.home import HermesHome
    from holdfast.hermes.importing.evidence import DeliveryEvidence
    from holdfast.hermes.importing.home_reader import HermesReader
    from holdfast.hermes.importing.importer import HermesImport, ImportReport
    from holdfast.runtime.runtime import Runtime

LINES = 20  # of progress, without a terminal
LISTED_MAX = 20  # sessions that did not go as planned

Home = Annotated[
    Path | None,
    typer.Argument(metavar="HOME", help="The home folder of Hermes.", show_default="HERMES_HOME, or ~/.hermes"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read everything and report, but write nothing.")]
Redeliver = Annotated[
    bool, typer.Option("--redeliver", help="Deliver every turn to every memory provider, without asking what it has.")
]
About = Annotated[
    str, typer.Option("--about", help="The owner of the notes in MEMORY.md and USER.md.", show_default="shared")
]


@command(config=True)
async def import_(
    invocation: Invocation,
    *,
    home: Home = None,
    agent: AgentName = None,
    dry_run: DryRun = False,
    redeliver: Redeliver = False,
    about: About = "",
) -> Output:
    """Import the history of Hermes: sessions, lineage, messages, titles, notes, and the chats they belong to.

    The home is only read. Every session is read back and compared by its digest; then its chat goes on with it where
    Hermes left it. Repeating the command continues an interrupted import, adds what is new, and imports nothing twice.
    Stop Hermes before the last import: one bot cannot be answered by two programs.

    Turns are delivered to the memory providers of the agent. Hindsight and Honcho are asked first which turns they
    have, and get only the others; with --redeliver they get all. Exit code 1 if a session or a note could not be
    imported.

    \b
    Examples:
      holdfast hermes import --dry-run
      holdfast hermes import ~/.hermes --agent main
      holdfast hermes import --json > import.json
    """
    from holdfast.hermes.home import find_home
    from holdfast.hermes.importing.home_reader import HermesReader
    from holdfast.kernel.hardening import variables

    found = find_home(home, variables())
    with HermesReader(found) as reader:
        reader.check_pages()
        name = agent or _default_agent(invocation)
        if dry_run:
            report = await _run(invocation, reader, name, None, redeliver=redeliver)
            reader.check_unchanged()
            return _output(found, report, name, ())
        async with invocation.visiting(make=True, act="history.imported", on="hermes") as runtime:
            report = await _run(invocation, reader, runtime.named(agent), runtime, redeliver=redeliver)
            reader.check_unchanged()
            notes = await _notes(found, runtime, name, about)
            return _output(found, report, name, notes)


async def _run(
    invocation: Invocation, reader: "HermesReader", agent: str, runtime: "Runtime | None", *, redeliver: bool
) -> "ImportReport":
    from holdfast.hermes.importing.importer import HermesImport
    from holdfast.hermes.importing.target import ImportTarget
    from holdfast.inbox.address import agent_name

    name = agent_name(agent)
    with _progress(reader.count_rows()) as advance:
        importing = HermesImport(
            reader,
            name,
            target=ImportTarget(runtime.ports) if runtime is not None else None,
            policies=runtime.policies(name) if runtime is not None else (),
            progressed=advance,
        )
        evidence = None if redeliver else await _evidence(invocation, reader, importing)
        return await importing.run(evidence)


async def _evidence(invocation: Invocation, reader: "HermesReader", importing: "HermesImport") -> "DeliveryEvidence":
    """What the agent's providers have of the home."""
    from holdfast.hermes.config_yaml import provider_of
    from holdfast.hermes.importing.evidence import DeliveryEvidence
    from holdfast.hermes.importing.settings import assumed_delivered
    from holdfast.hermes.kept_reader import ask_providers
    from holdfast.kernel.hardening import variables
    from holdfast.runtime.app import make_agents

    agents = make_agents(listed=invocation.settings.agents, lenient=True)
    tables = agents.policy(importing.agent).memory or {}
    kept = await ask_providers(tables, variables(), importing.asked_sessions())
    return DeliveryEvidence(kept, assumed=assumed_delivered(tables, provider_of(reader.home)))


async def _notes(home: "HermesHome", runtime: "Runtime", agent: str, about: str) -> tuple[ImportedEntry, ...]:
    """Import the memory files; none if there are none."""
    from holdfast.inbox.address import agent_name
    from holdfast.memory.files.hermes import import_hermes
    from holdfast.memory.notes_text import FILE_NAMES

    folder = home.path / "memories"
    if not any((folder / name).exists() for name in FILE_NAMES.values()):
        return ()
    found = import_hermes(home.path, agent_name(agent), subject=about)
    return tuple([ImportedEntry.of(one.file, one.n, await runtime.apply_memory(one.batch)) for one in found])


def _default_agent(invocation: Invocation) -> str:
    listed = sorted(invocation.settings.agents or {})
    return "main" if "main" in listed or not listed else listed[0]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; elsewhere about twenty lines on stderr."""
    if is_terminal():
        with progress("rows", total) as advance:
            yield advance
        return
    done = told = 0

    def advance_lines(rows: int) -> None:
        nonlocal done, told
        done += rows
        if total and done * LINES // total > told:
            told = done * LINES // total
            print(f"imported {done} of {total} rows", file=sys.stderr, flush=True)

    yield advance_lines


def _output(
    home: "HermesHome",
    report: "ImportReport",
    agent: str,
    notes: tuple[ImportedEntry, ...],
) -> Output:
    from holdfast.hermes.importing.settings import channels_of, holdfast_toml
    from holdfast.hermes.provider_config import read_env

    proposals = channels_of(read_env(home.path / ".env"))
    toml = holdfast_toml(agent, proposals, per_user=report.has_members)
    odd = [one for one in report.sessions if one.state in {"differs", "goes on here"}]
    refused = [one for one in notes if one.state == "refused"]
    wrong = any(one.state == "differs" for one in odd) or bool(refused)
    view = {
        "home": str(home.path),
        "schema": report.schema,
        "rows": report.rows,
        "orphan_rows": report.orphan_rows,
        "unfinished_rows": report.unfinished_rows,
        "empty_sessions": report.empty,
        "sessions": report.sessions,
        "notes": notes,
        "digest": report.digest,
        "offered_turns": report.offered,
        "held_turns": dict(report.held),
        "uncertain_turns": {name: count for name, count in report.uncertain.items() if count},
        "scopes_left_out": report.scopes_left_out,
        "skipped": report.skipped,
        "holdfast_toml": toml,
    }
    text: list[Part] = [Heading(_headline(report)), facts(_counts(report, notes))]
    text += [f"{provider} has {count} of {report.offered} turns already." for provider, count in report.held.items()]
    text += [
        f"{provider} has the words of {count} more turns in chats that may be other ones; it gets these turns."
        for provider, count in report.uncertain.items()
        if count
    ]
    if odd or refused:
        rows = [(one.hermes, one.state, one.title) for one in odd[:LISTED_MAX]]
        rows += [(one.file, one.state, one.reason or "") for one in refused[:LISTED_MAX]]
        text += ["", TextTable(("not imported", "state", "what"), rows)]
    text += [f"skipped: {one}" for one in report.skipped[:LISTED_MAX]]
    text += [f"routing of another home was left out: {one}" for one in report.scopes_left_out]
    if toml:
        text += ["\nHermes answers these bots. To answer them with Holdfast, add to holdfast.toml:\n", toml]
    return Output(msgspec.to_builtins(view), *text, code=WRONG if wrong else OK)


def _headline(report: "ImportReport") -> str:
    states = ("imported", "resumed", "extended", "there already", "goes on here", "differs", "would be imported")
    counted = ", ".join(f"{report.count(state)} {state}" for state in states if report.count(state))
    number = len(report.sessions)
    return f"{number} session{'' if number == 1 else 's'}: {counted or 'nothing to import'}"


def _counts(report: "ImportReport", notes: tuple[ImportedEntry, ...]) -> dict[str, object]:
    read = report.total("rows")
    parts = {"messages": "kept", "copies": "copies", "records": "records"}
    kept = f"{read} = " + " + ".join(f"{report.total(name)} {what}" for what, name in parts.items())
    return {
        "rows": kept,
        "turns": report.total("turns"),
        "entries": report.total("entries"),
        "undone": report.total("undone"),
        "chats": sum(one.goes_on for one in report.sessions),
        "notes": len(notes),
        "orphans": report.orphan_rows,
        "unfinished": report.unfinished_rows,
        "digest": report.digest,
    }
