"""`holdfast init`: write a commented holdfast.toml."""

import os
import sys
from enum import Enum
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Config, Data, Invocation, Json, command
from holdfast.cli.output import Output
from holdfast.config import FILE
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.files import is_out_of_space, unwritable

# Every setting, commented out except for one agent. It is valid as it is, and also with every setting uncommented.
TEMPLATE = files("holdfast.config").joinpath("template.toml").read_text(encoding="utf-8")


class InitAudience(Enum):
    """Who will talk to an agent."""

    ONE = "one"
    SEVERAL = "several"


SHARING = {InitAudience.ONE: "agent", InitAudience.SEVERAL: "person"}
SHARING_MEANS = {
    InitAudience.ONE: "every private chat sees all memories of the agent",
    InitAudience.SEVERAL: "each person sees only their own notes and messages, and a group only its own",
}


def init(
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file, which is kept as .bak.")] = False,
    people: Annotated[
        InitAudience | None,
        typer.Option("--people", help="Who will talk to the agent: only you, or several people. Asked if not given."),
    ] = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write a commented holdfast.toml.

    The file is written into the data folder, or to the path of --config. It shows every setting; one agent is ready to
    run. On a terminal the command asks who will talk to the agent; without a terminal and without --people, the answer
    is several people.

    \b
    Examples:
      holdfast init
      holdfast init --people one
      holdfast init --config ./holdfast.toml
    """
    audience = people or (InitAudience.SEVERAL if as_json or not sys.stdin.isatty() else _ask())
    _init(force=force, audience=audience, config=config, data=data, as_json=as_json)


def _ask() -> InitAudience:
    """Ask at the terminal. An unclear answer counts as several people, which shares the least."""
    print("Who will talk to this agent: only you, or several people?")
    print(f"  only you:       {SHARING_MEANS[InitAudience.ONE]}.")
    print(f"  several people: {SHARING_MEANS[InitAudience.SEVERAL]}.")
    answer = typer.prompt("[one/several]", default=InitAudience.SEVERAL.value).strip().casefold()
    return InitAudience.ONE if answer in {"one", "me", "only me", "only you", "1"} else InitAudience.SEVERAL


@command(config=True)
async def _init(invocation: Invocation, force: bool, audience: InitAudience) -> Output:
    file = invocation.config if invocation.config is not None else invocation.folder / FILE
    kept = write(file, force=force, audience=audience)
    given = (("config", invocation.config), ("data", invocation.data))
    where = "".join(f" --{name} {path}" for name, path in given if path is not None)
    return Output(
        {"file": str(file), "kept": str(kept) if kept else None, "sharing": SHARING[audience]},
        f"wrote    {file}",
        f'sharing  memory.sharing = "{SHARING[audience]}": {SHARING_MEANS[audience]}',
        *([f"kept     {kept}, the previous file"] if kept is not None else []),
        f"next     edit the file, then run: holdfast config check{where}\n         and: holdfast up{where}",
    )


def _spare(file: Path) -> Path:
    """An unused name beside the file, so that earlier copies are kept."""
    names = (f"{file.name}.bak{n if n > 1 else ''}" for n in count(1))
    return next(place for name in names if not (place := file.with_name(name)).exists())


def write(file: Path, *, force: bool, audience: InitAudience = InitAudience.SEVERAL) -> Path | None:
    """Write the file. Returns the new path of the file that it replaced. Raises `ConfigInvalid`, `StoreFull`."""
    kept = None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if force and file.exists():
            kept = _spare(file)
            file.replace(kept)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as opened:
            opened.write(TEMPLATE.replace('\nsharing = "person"\n', f'\nsharing = "{SHARING[audience]}"\n'))
    except FileExistsError as error:
        fix = "it was not changed; edit it, or replace it with --force"
        raise ConfigInvalid(f"{file} exists already: {fix}", file=str(file)) from error
    except OSError as error:
        if is_out_of_space(error):
            file.unlink(missing_ok=True)  # an incomplete file is not a configuration
            if kept is not None:
                kept.replace(file)
            raise unwritable(f"{file} cannot be written", error, file=str(file)) from error
        raise ConfigInvalid(f"{file} cannot be written: {error.strerror}", file=str(file)) from error
    return kept
