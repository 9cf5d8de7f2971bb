"""`holdfast init`: write a commented holdfast.toml."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Config, Data, Json


def init(
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there; it is kept as .bak.")] = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write a commented holdfast.toml.

    Into the data folder, or where --config says. It shows every setting; one agent is ready to run.

    \b
    Examples:
      holdfast init
      holdfast init --config ./holdfast.toml
    """
    from holdfast.cli.running import run

    run(lambda: _init(config, data, force=force, as_json=as_json), as_json=as_json)


async def _init(config: Path | None, data: Path | None, *, force: bool, as_json: bool) -> int:
    from holdfast.cli.opening import folder_of
    from holdfast.cli.output import print_json
    from holdfast.cli.running import OK
    from holdfast.config import FILE

    file = config if config is not None else folder_of(data) / FILE
    kept = write(file, force=force)
    if as_json:
        print_json({"file": str(file), "kept": str(kept) if kept else None})
        return OK
    print(f"wrote    {file}")
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


def write(file: Path, *, force: bool) -> Path | None:
    """Make the file; where the one that was there went, when it had to go. Raises `ConfigInvalid`, `StoreFull`."""
    import os

    from holdfast.config import TEMPLATE
    from holdfast.core.disk_space import is_out_of_space, unwritable
    from holdfast.core.errors import ConfigInvalid

    kept = None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if force and file.exists():
            kept = _spare(file)
            file.replace(kept)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as opened:
            opened.write(TEMPLATE)
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
