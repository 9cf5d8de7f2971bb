"""The table [agents.NAME.memory.local] of holdfast.toml, and the provider it configures."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.kernel.settings_table import read_table
from holdfast.memory.naming import PerSession
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.local.provider import LocalProvider


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    limit: Annotated[int, Meta(ge=1, le=100)] = 100  # results of one query, even if the query asks for more


def make_local(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`. The first use of the provider opens or creates the index."""
    settings = read_table("local", setup.settings, LocalSettings)
    return Configured(LocalProvider(setup, limit=settings.limit), PerSession(), every_turns=settings.every_turns)
