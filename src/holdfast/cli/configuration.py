"""`holdfast config`: check holdfast.toml, and show what it says."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.api.auth.access_token import unconfirmed_text
from holdfast.api.auth.access_token_sql import list_tokens
from holdfast.api.auth.operator_token import VARIABLE, check_token
from holdfast.api.shapes.error_report import error_view
from holdfast.cli.command import Invocation, command, command_group
from holdfast.cli.config_show import show
from holdfast.cli.output import OK, WRONG, Heading, Output, Part, TextTable, print_error, print_errors
from holdfast.config import FILE
from holdfast.config.secrets import secret_variables
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.hardening import conceal, variables

if TYPE_CHECKING:
    from holdfast.runtime.inspection import Inspection

CONNECT_WAIT_S = 10.0
config_app = command_group("config", "Check and show the configuration.")


@config_app.command("check")
@command(config=True)
async def check(
    invocation: Invocation,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also connect to models, memory providers and channels.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0.1, max=300, help="With --connect: the time limit of each connection, in seconds."),
    ] = CONNECT_WAIT_S,
) -> Output | int:
    """Check holdfast.toml and show what would run.

    Every model, memory provider and channel is created as at start, without connecting. With --connect each of them
    also connects, all at the same time; nothing is written, posted or charged. Secrets are looked up and never shown.
    Exit code 1 if there is an error, or if a connection fails.

    \b
    Examples:
      holdfast config check
      holdfast config check --connect
      holdfast config check --config ./holdfast.toml --json
    """
    found = await _inspected(invocation, wait if connect else None)
    try:
        found = replace(found, notes=(*found.notes, *await _token_notes(invocation.folder)))
    except HoldfastError as error:  # a store that cannot be opened is one more problem
        found = replace(found, problems=(*found.problems, error))
    file = invocation.reading.config.file
    output = _output(None if file is None else str(file), found)
    if invocation.as_json or found.ok:
        return output
    output.print(as_json=False)
    for problem in found.problems:
        print_error(problem, as_json=False)
    failed = sum(not one.ok for one in found.attempts or ())
    print(f"{len(found.problems) + failed} to correct.", file=sys.stderr)
    return WRONG


@config_app.command("path")
@command(config=True)
async def path(invocation: Invocation) -> Output:
    """Show which configuration file is read.

    \b
    Examples:
      holdfast config path
    """
    file = invocation.config or invocation.folder / FILE
    exists = file.exists()
    text = str(file) if exists else f"{file} (does not exist; `holdfast init` writes it)"
    return Output({"file": str(file), "exists": exists}, text)


config_app.command("show")(show)


async def _inspected(invocation: Invocation, connect_wait_s: float | None = None) -> "Inspection":
    """The inspection of the configuration and of the operator's token, which is not part of the configuration."""
    from holdfast.runtime.inspection import Inspector

    folder, read = invocation.folder, invocation.reading
    conceal(secret_variables(read.config.agents or {}))
    found = await Inspector(read.config, folder, variables(), connect_wait_s, found=read.problems).inspect()
    try:
        check_token(folder, variables().get(VARIABLE))
    except HoldfastError as error:
        found = replace(found, problems=(*found.problems, error))
    return found


async def _token_notes(folder: Path) -> list[str]:
    """Warnings about unconfirmed tokens. A store of an earlier release is not opened, since that would upgrade it."""
    from holdfast.runtime.app import has_store, is_store_current, make_agents, open_runtime

    if not has_store(folder):
        return []
    if not is_store_current(folder):
        return ["the store is of an earlier release, so its tokens were not checked; check again after the upgrade"]
    async with await open_runtime(folder, agents=make_agents(), serve=False) as runtime:
        tokens = list(page := await runtime.db.read(list_tokens()))
        while page:
            tokens += (page := await runtime.db.read(list_tokens(after=page[-1].id)))
    return [unconfirmed_text(one.id, one.label) for one in tokens if one.revoked_at is None and one.is_unconfirmed]


async def explain(error: HoldfastError, invocation: Invocation) -> int:
    """Print every error of a configuration that could not be run. Raises `error` if the configuration is valid."""
    problems = (await _inspected(invocation)).problems
    if not problems:
        raise error
    print_errors(problems, as_json=invocation.as_json)
    return WRONG


def _output(file: str | None, found: "Inspection") -> Output:
    view = {
        "ok": found.ok,
        "file": file,
        "agents": found.plans,
        "secrets": found.secrets,
        "problems": [error_view(one).error for one in found.problems],
        "notes": found.notes,
        "attempts": found.attempts,
    }
    rows = (
        (one.agent, one.model, ", ".join(one.memory), ", ".join(one.channels) or "http, terminal", ", ".join(one.mcp))
        for one in found.plans
    )
    text: list[Part] = [
        Heading(file or "no holdfast.toml: every name is an agent, as below; `holdfast init` writes a file"),
        TextTable(("agent", "model", "memory", "channels", "mcp"), rows),
    ]
    text += [f"talks    {one.agent} may message {', '.join(one.talks_to)}" for one in found.plans if one.talks_to]
    text += [f"{'found' if one.found else 'MISSING':8} {one.key}, {one.where}" for one in found.secrets]
    text += [f"note     {note}" for note in found.notes]
    if found.attempts is not None:
        tried = ((o.agent, o.kind, o.name, "yes" if o.ok else "NO", o.duration_ms, o.detail) for o in found.attempts)
        text.append(TextTable(("agent", "kind", "name", "connects", "ms", "identity or reason"), tried))
    if found.ok:
        text.append("The configuration is valid.")
    return Output(view, *text, code=OK if found.ok else WRONG)
