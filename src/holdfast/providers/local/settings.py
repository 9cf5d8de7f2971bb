"""The table [agents.NAME.memory.local] of holdfast.toml."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.providers.settings import read_table


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    limit: Annotated[int, Meta(ge=1, le=100)] = 100  # of what one question may bring back, whatever is asked for


def read_settings(table: Mapping[str, object]) -> LocalSettings:
    """Raises `ConfigInvalid`."""
    return read_table("local", table, LocalSettings)
