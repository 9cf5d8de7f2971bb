"""The home folder of Hermes Agent: where it is and what identifies it. No database is opened, no file changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.kernel.errors import HermesHomeInvalid

VARIABLE = "HERMES_HOME"
KNOWN_BY = ("config.yaml", "state.db", "SOUL.md", "sessions", "memories")  # any of these identifies a home


@dataclass(frozen=True, slots=True)
class HermesHome:
    """A folder that Hermes uses. The path is absolute and without symbolic links."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def database(self) -> Path:
        return self.path / "state.db"

    @property
    def plugin(self) -> Path:
        return self.path / "plugins" / "holdfast"

    @property
    def folder(self) -> Path:
        """Holdfast's own folder in the home: the spool, the store and the address of the process beside Hermes."""
        return self.path / "holdfast"

    @property
    def spool(self) -> Path:
        return self.folder / "spool"


def find_home(given: Path | None, variables: Mapping[str, str]) -> HermesHome:
    """The home that was named, else the one of `HERMES_HOME`, else `~/.hermes`. Raises `HermesHomeInvalid`."""
    named = given or Path(variables.get(VARIABLE) or "~/.hermes")
    try:
        path = named.expanduser().resolve()
    except RuntimeError as error:
        raise HermesHomeInvalid(f"{named}: the home folder of the user is unknown", path=str(named)) from error
    if not path.is_dir():
        raise HermesHomeInvalid(f"{path} is not a folder", path=str(path))
    if not any((path / name).exists() for name in KNOWN_BY):
        what = f"{path} is not a home of Hermes: it has none of {', '.join(KNOWN_BY)}"
        raise HermesHomeInvalid(what, path=str(path))
    return HermesHome(path)
