"""From a table of holdfast.toml to a provider. Nothing is opened or made before it is first used."""

from holdfast.memory.naming import PerSession
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.local.provider import LocalProvider
from holdfast.providers.local.settings import read_settings


def make_local(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`."""
    settings = read_settings(setup.settings)
    return Configured(LocalProvider(setup, settings), PerSession(), every_turns=settings.every_turns)
