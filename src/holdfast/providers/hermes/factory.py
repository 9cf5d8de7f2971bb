"""The table [agents.NAME.memory.hermes] of holdfast.toml, and the provider it configures."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import read_table
from holdfast.memory.delivery import PerSession
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.hermes.provider import HostedProvider


class HostedSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    python: str  # the interpreter of Hermes
    provider: str  # the name of the plugin's folder, as in memory.provider of config.yaml
    home: str = "~/.hermes"
    recall: bool = False
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 60


def make_hermes(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`. Starts no process."""
    settings = read_table("hermes", setup.settings, HostedSettings)
    python, home = Path(settings.python).expanduser(), Path(settings.home).expanduser()
    if not python.is_file():
        raise ConfigInvalid(f"hermes.python is {settings.python!r}: there is no such interpreter", key="python")
    if not home.is_dir():
        raise ConfigInvalid(f"hermes.home is {settings.home!r}: there is no such folder", key="home")
    if not settings.provider or settings.provider == "holdfast":
        raise ConfigInvalid("hermes.provider must be another memory provider of Hermes", key="provider")
    return Configured(HostedProvider(setup, settings, python, home), PerSession())
