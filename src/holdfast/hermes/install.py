"""Installing the plugin into a home of Hermes, and removing it.

Rule 1: everything is checked before anything is changed: the home, the interpreter and version of Hermes, its
        configuration, the provider that it has, the settings of Hindsight and Honcho, and that the plugin loads there.
Rule 2: nothing is installed into the environment of Hermes. The plugin is a folder of the home that uses the standard
        library alone, so no package of Hermes can be changed.
Rule 3: the folder is written beside its place and renamed, and config.yaml is changed last: an interrupted
        installation is either absent, or complete and not yet selected. Installing again completes it.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holdfast
from holdfast.hermes.config_yaml import provider_of, set_provider
from holdfast.hermes.home import HermesHome
from holdfast.hermes.interpreter import check_plugin, find_interpreter
from holdfast.hermes.plugin import provider as plugin
from holdfast.hermes.plugin.client import LAUNCH
from holdfast.hermes.provider_config import check_clients, read_memory
from holdfast.hermes.spool_reader import SpoolReader
from holdfast.kernel.errors import HermesPluginForeign, HermesProviderSet, HoldfastError
from holdfast.kernel.files import make_private_folder, unwritable

MANIFEST = "manifest.json"  # marks the folder as ours, and holds the provider that Hermes had
FILES = ("__init__.py", "provider.py", "spool.py", "client.py")
DESCRIPTION = "Durable memory: every turn is stored before it is acknowledged, then delivered to Hindsight and Honcho"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What the operator asked for."""

    python: Path | None = None
    replaces: bool = False
    starts: bool = True
    data: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    plugin: Path
    version: str  # of Hermes
    before: str  # the provider that Hermes had
    providers: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def view(self) -> dict[str, Any]:
        shown = {"plugin": str(self.plugin), "hermes": self.version, "before": self.before}
        return shown | {"providers": self.providers, "left_out": self.left_out}


def install_plugin(home: HermesHome, wanted: Installation, variables: Mapping[str, str], user_home: Path) -> Installed:
    """Raises `HermesNotFound`, `HermesUnsupported`, `HermesConfigInvalid`, `HermesProviderSet`, `HermesPluginForeign`,
    `ConfigInvalid`, `StoreReadOnly` and `StoreFull`."""
    hermes = find_interpreter(wanted.python, home, variables)
    memory = read_memory(home, variables, user_home)
    check_clients(memory)
    current = provider_of(home)
    if current not in ("", plugin.NAME) and not wanted.replaces:
        raise HermesProviderSet(f"memory.provider of {home.config} is {current}", provider=current)
    before = _manifest(home).get("before", "") if current == plugin.NAME else current
    _check_ours(home)
    check_plugin(hermes, [Path(plugin.__file__).with_name(name) for name in FILES])
    SpoolReader(home.spool).waiting()
    try:
        make_private_folder(home.folder)
        _write(home.folder / LAUNCH, _launch(home, wanted, variables))
        _copy(home, {"version": holdfast.__version__, "hermes": hermes.version, "before": before})
    except OSError as error:
        raise unwritable(f"the plugin in {home.path} cannot be written", error, path=str(home.path)) from error
    set_provider(home, plugin.NAME)
    names = tuple(sorted(memory.tables))
    return Installed(
        plugin=home.plugin, version=hermes.version, before=before, providers=names, left_out=memory.left_out
    )


def uninstall_plugin(home: HermesHome) -> tuple[str, int]:
    """Restore the provider and remove the folder; the provider, and the number of turns that wait in the spool.

    A plugin that is half installed is removed too. Raises `HermesPluginForeign`, `HermesConfigInvalid`,
    `StoreReadOnly` and `StoreFull`.
    """
    _check_ours(home)
    before = str(_manifest(home).get("before", ""))
    current = provider_of(home)
    if current == plugin.NAME:
        set_provider(home, before)
    try:
        for folder in (home.plugin, _draft(home)):
            if folder.exists():
                shutil.rmtree(folder)
        (home.folder / LAUNCH).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(f"{home.plugin} cannot be removed", error, path=str(home.plugin)) from error
    return (before if current == plugin.NAME else current), _waiting(home)


def installed_version(home: HermesHome) -> str:
    """The version of Holdfast that installed the plugin; empty if it is not installed or incomplete."""
    complete = all((home.plugin / name).is_file() for name in FILES)
    return str(_manifest(home).get("version", "")) if complete else ""


def _waiting(home: HermesHome) -> int:
    try:
        return len(SpoolReader(home.spool).waiting())
    except HoldfastError:
        return 0


def _check_ours(home: HermesHome) -> None:
    """A folder without our manifest is ours only if it holds nothing but our files."""
    if not home.plugin.exists():
        return
    names = {path.name for path in home.plugin.iterdir()} - {"__pycache__"} if home.plugin.is_dir() else {"a file"}
    if home.plugin.is_symlink() or (MANIFEST not in names and not names <= {*FILES, "plugin.yaml"}):
        what = f"{home.plugin} has files that Holdfast did not write: {', '.join(sorted(names))}"
        raise HermesPluginForeign(what, path=str(home.plugin))


def _manifest(home: HermesHome) -> dict[str, Any]:
    try:
        read = json.loads((home.plugin / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _launch(home: HermesHome, wanted: Installation, variables: Mapping[str, str]) -> dict[str, Any]:
    """How the plugin starts the process beside Hermes."""
    data = [] if wanted.data is None else ["--data", str(wanted.data)]
    command = [sys.executable, "-m", "holdfast", "hermes", "serve", str(home.path), *data]
    path = variables.get("PYTHONPATH")
    environment = {"PYTHONPATH": path} if path else {}
    launch: dict[str, Any] = {"command": command, "environment": environment, "start": wanted.starts}
    return launch | ({"data": str(wanted.data)} if wanted.data is not None else {})


def _copy(home: HermesHome, manifest: dict[str, Any]) -> None:
    """Write the folder beside its place, then rename it."""
    source, draft = Path(plugin.__file__).parent, _draft(home)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700, parents=True)
    for name in FILES:
        shutil.copyfile(source / name, draft / name)
    (draft / "plugin.yaml").write_text(f"name: {plugin.NAME}\ndescription: {json.dumps(DESCRIPTION)}\n", "utf-8")
    _write(draft / MANIFEST, manifest)
    if home.plugin.exists():
        shutil.rmtree(home.plugin)
    draft.rename(home.plugin)


def _draft(home: HermesHome) -> Path:
    return home.plugin.with_name(f".{home.plugin.name}-new")


def _write(file: Path, value: dict[str, Any]) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        json.dump(value, opened, indent=2)
