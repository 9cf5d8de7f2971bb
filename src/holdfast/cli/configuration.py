"""`holdfast config check`: say what would run, and everything that is wrong, without running it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Config, Data, Json

if TYPE_CHECKING:
    from holdfast.config import Config as Settings
    from holdfast.kernel.errors import ConfigInvalid
    from holdfast.runtime.inspection import Inspection

CONNECT_WAIT_S = 10.0
config_app = typer.Typer(name="config", help="The configuration.", no_args_is_help=True, rich_markup_mode=None)


@config_app.callback()
def configuration() -> None:
    """The configuration."""


@config_app.command("check")
def check(
    *,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also try models, memory providers and channels for real.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0.1, max=300, help="With --connect: how many seconds each of them has.")
    ] = CONNECT_WAIT_S,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Check holdfast.toml and say what would run.

    Every model, memory provider and channel is made as it would be at start, without reaching anybody. With --connect
    each of them is then tried, all at the same time: nothing is written, posted or paid for. Secrets are looked for
    and never shown. Exit code 1 when anything is wrong or does not answer.

    \b
    Examples:
      holdfast config check
      holdfast config check --connect
      holdfast config check --config ./holdfast.toml --json
    """
    from holdfast.cli.running import run

    run(lambda: _check(config, data, wait if connect else None, as_json=as_json), as_json=as_json)


@config_app.command("path")
def path(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Say which file would be read.

    \b
    Examples:
      holdfast config path
    """
    from holdfast.cli.running import run

    run(lambda: _path(config, data, as_json=as_json), as_json=as_json)


async def _path(config: Path | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.cli.opening import folder_of
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.config import FILE

    file = config or folder_of(data) / FILE
    if as_json:
        print_json({"file": str(file), "exists": file.exists()})
        return OK
    print(file if file.exists() else f"{file} (there is none; `holdfast init` writes one)")
    return OK


async def _check(config: Path | None, data: Path | None, wait_s: float | None, *, as_json: bool) -> int:
    from holdfast.cli.opening import config_of, folder_of
    from holdfast.cli.running import OK, WRONG
    from holdfast.kernel.errors import HoldfastError
    from holdfast.kernel.hardening import variables
    from holdfast.runtime.inspection import inspect

    folder = folder_of(data)
    read = config_of(config, folder)
    found = await inspect(read, folder, variables(), connect_wait_s=wait_s)
    try:
        found = replace(found, notes=(*found.notes, *await _token_notes(folder)))
    except HoldfastError as error:  # a store that cannot be opened is named beside what else is wrong
        found = replace(found, problems=(*found.problems, error))
    file = str(read.file) if read.file is not None else None
    (_print_json if as_json else _print)(file, found)
    return OK if found.ok else WRONG


async def _token_notes(folder: Path) -> list[str]:
    """The tokens that speak for anybody though nobody said so. A store of an earlier release is left as it is."""
    from holdfast.api.auth.access_token_sql import list_tokens
    from holdfast.api.auth.token_binding import unconfirmed_text
    from holdfast.runtime.app import has_store, is_store_current, make_agents, open_runtime

    if not has_store(folder):
        return []
    if not is_store_current(folder):
        return ["the store is of an earlier release: check again once this one has opened it, for its tokens"]
    async with await open_runtime(folder, agents=make_agents(), serve=False) as runtime:
        tokens = list(page := await runtime.db.read(list_tokens()))
        while page:
            tokens += (page := await runtime.db.read(list_tokens(after=page[-1].id)))
    return [unconfirmed_text(one.id, one.label) for one in tokens if one.revoked_at is None and one.is_unconfirmed]


async def explain(error: "ConfigInvalid", settings: "Settings", folder: Path, *, as_json: bool) -> int:
    """What is wrong with a configuration that could not be run, all of it. Raises the error when it is about else."""
    from holdfast.api.shapes.shapes import error_view
    from holdfast.cli.output import print_error, print_json
    from holdfast.cli.running import WRONG
    from holdfast.kernel.hardening import variables
    from holdfast.runtime.inspection import inspect

    problems = (await inspect(settings, folder, variables())).problems
    if not problems:
        raise error
    if as_json:
        views = [error_view(one).error for one in problems]
        print_json({"error": views[0], "problems": views})
    for one in problems:
        print_error(one, as_json=False)
    return WRONG


def _print_json(file: str | None, found: "Inspection") -> None:
    import msgspec

    from holdfast.api.shapes.shapes import error_view
    from holdfast.cli.output import print_json

    print_json(
        {
            "ok": found.ok,
            "file": file,
            "agents": [
                {
                    "agent": one.agent,
                    "model": one.model,
                    "memory": one.memory,
                    "channels": one.channels,
                    "mcp": one.mcp,
                    "talks_to": one.talks_to,
                }
                for one in found.plans
            ],
            "secrets": [{"key": one.key, "where": one.where, "found": one.found} for one in found.secrets],
            "problems": [error_view(one).error for one in found.problems],
            "notes": found.notes,
            "attempts": None if found.attempts is None else [msgspec.to_builtins(one) for one in found.attempts],
        }
    )


def _print(file: str | None, found: "Inspection") -> None:
    import sys

    from holdfast.cli.output import print_error, print_heading, print_table, visible

    print_heading(file or "no holdfast.toml: every name is an agent, as below; `holdfast init` writes a file")
    rows = [
        (one.agent, one.model, ", ".join(one.memory), ", ".join(one.channels) or "http, terminal", ", ".join(one.mcp))
        for one in found.plans
    ]
    print_table(("agent", "model", "memory", "channels", "mcp"), rows)
    for plan in found.plans:
        if plan.talks_to:
            print(visible(f"talks    {plan.agent} may message {', '.join(plan.talks_to)}"))
    for one in found.secrets:
        print(visible(f"{'found' if one.found else 'MISSING':8} {one.key}, {one.where}"))
    for note in found.notes:
        print(visible(f"note     {note}"))
    if found.attempts is not None:
        print_table(
            ("agent", "kind", "name", "connects", "ms", "who, or why not"),
            [(o.agent, o.kind, o.name, "yes" if o.ok else "NO", o.duration_ms, o.detail) for o in found.attempts],
        )
    for problem in found.problems:
        print_error(problem, as_json=False)
    if found.ok:
        print("All is well.")
    else:
        silent = sum(not one.ok for one in found.attempts or ())
        print(f"{len(found.problems) + silent} to correct.", file=sys.stderr)
