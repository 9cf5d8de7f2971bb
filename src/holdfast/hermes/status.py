"""The state of a home: whether the plugin is installed and selected, whether a process serves it, and what waits."""

from holdfast.hermes.config_yaml import provider_of
from holdfast.hermes.home import HermesHome
from holdfast.hermes.install import installed_version
from holdfast.hermes.plugin.client import ask
from holdfast.hermes.plugin.provider import NAME
from holdfast.hermes.spool_reader import SpoolReader
from holdfast.store.sqlite.owner import OwnerLock

BUDGET_S = 5.0
INCOMPLETE = "incomplete; run `holdfast hermes install`"


def read_status(home: HermesHome) -> dict[str, str]:
    """Reads files and asks the process that serves the home; changes nothing. Raises `SpoolNewer`."""
    version = installed_version(home)
    selected = provider_of(home)
    answer = ask(home.path, {"op": "status"}, BUDGET_S)
    view = {
        "home": str(home.path),
        "installed": version or (INCOMPLETE if home.plugin.exists() else "no"),
        "selected": "yes" if selected == NAME else f"no, Hermes uses {selected or 'the built-in memory only'}",
        "serving": "yes" if answer is not None else "no",
    }
    if answer is not None:
        return view | {name: str(value) for name, value in answer.items() if name != "ok"}
    reader = SpoolReader(home.spool)
    return view | {"waiting_in_spool": str(len(reader.waiting())), "damaged_lines": str(len(reader.damaged))}


def read_process(home: HermesHome) -> int | None:
    """The number of the process that serves the home; None if none does."""
    return OwnerLock(home.folder).pid() if ask(home.path, {"op": "ping"}, BUDGET_S) is not None else None
