"""`holdfast init`: write a commented holdfast.toml."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Config, Data, Json


class People(Enum):
    """Who will talk to an agent."""

    ONE = "one"
    SEVERAL = "several"


SHARING = {People.ONE: "agent", People.SEVERAL: "person"}
SHARING_MEANS = {
    People.ONE: "every private chat is shown all that the agent remembers",
    People.SEVERAL: "each person is shown their own notes and words, a group its own",
}


def init(
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there; it is kept as .bak.")] = False,
    people: Annotated[
        People | None,
        typer.Option("--people", help="Who will talk to the agent: only you, or several people. Asked if not given."),
    ] = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write a commented holdfast.toml.

    Into the data folder, or where --config says. It shows every setting; one agent is ready to run. At a terminal it
    asks who will talk to the agent; elsewhere, and without --people, several people is taken as the answer.

    \b
    Examples:
      holdfast init
      holdfast init --people one
      holdfast init --config ./holdfast.toml
    """
    from holdfast.cli.running import run

    asked = people or (People.SEVERAL if as_json or not sys.stdin.isatty() else _ask())
    run(lambda: _init(config, data, asked, force=force, as_json=as_json), as_json=as_json)


def _ask() -> People:
    """Ask at the terminal. What is no clear answer counts as several people: that shows least."""
    print("Who will talk to this agent: only you, or several people?")
    print("  only you:       every private chat is shown all that the agent remembers, whoever writes there.")
    print("  several people: each person is shown their own notes and words, and a group its own.")
    answer = typer.prompt("[one/several]", default=People.SEVERAL.value).strip().casefold()
    return People.ONE if answer in {"one", "me", "only me", "only you", "1"} else People.SEVERAL


async def _init(config: Path | None, data: Path | None, people: People, *, force: bool, as_json: bool) -> int:
    from holdfast.cli.opening import folder_of
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.config import FILE

    file = config if config is not None else folder_of(data) / FILE
    kept = write(file, force=force, people=people)
    if as_json:
        print_json({"file": str(file), "kept": str(kept) if kept else None, "sharing": SHARING[people]})
        return OK
    print(f"wrote    {file}")
    print(f'sharing  memory.sharing = "{SHARING[people]}": {SHARING_MEANS[people]}')
    if kept is not None:
        print(f"kept     {kept}, the one that was there")
    where = "".join(f" --{name} {given}" for name, given in (("config", config), ("data", data)) if given is not None)
    print(f"next     edit it, then run: holdfast config check{where}\n         and: holdfast up{where}")
    return OK


def _spare(file: Path) -> Path:
    """A name beside it that nothing has: what was kept before stays."""
    from itertools import count

    names = (f"{file.name}.bak{n if n > 1 else ''}" for n in count(1))
    return next(place for name in names if not (place := file.with_name(name)).exists())


def text_for(people: People) -> str:
    """The template, with who is shown what the agent remembers."""
    from holdfast.config import TEMPLATE

    return TEMPLATE.replace('\nsharing = "person"\n', f'\nsharing = "{SHARING[people]}"\n')


def write(file: Path, *, force: bool, people: People = People.SEVERAL) -> Path | None:
    """Make the file; where the one that was there went, when it had to go. Raises `ConfigInvalid`, `StoreFull`."""
    import os

    from holdfast.kernel.disk_space import is_out_of_space, unwritable
    from holdfast.kernel.errors import ConfigInvalid

    kept = None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if force and file.exists():
            kept = _spare(file)
            file.replace(kept)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as opened:
            opened.write(text_for(people))
    except FileExistsError as error:
        fix = "it was left as it is; edit it, or replace it with --force"
        raise ConfigInvalid(f"{file} exists already: {fix}", file=str(file)) from error
    except OSError as error:
        if is_out_of_space(error):
            file.unlink(missing_ok=True)  # what was written of it is no configuration
            if kept is not None:
                kept.replace(file)
            raise unwritable(f"{file} cannot be written", error, file=str(file)) from error
        raise ConfigInvalid(f"{file} cannot be written: {error.strerror}", file=str(file)) from error
    return kept
