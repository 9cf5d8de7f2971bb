"""The table [agents.NAME.memory.local] of holdfast.toml."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.core.errors import ConfigInvalid


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    limit: Annotated[int, Meta(ge=1, le=100)] = 100  # of what one question may bring back, whatever is asked for


def read_settings(table: Mapping[str, object]) -> LocalSettings:
    """Raises `ConfigInvalid`."""
    known = LocalSettings.__struct_fields__
    unknown = [key for key in table if key not in known]
    if unknown:
        raise ConfigInvalid(f"local: {unknown[0]!r} is no setting; there are {', '.join(known)}", key=unknown[0])
    try:
        return msgspec.convert(dict(table), LocalSettings, strict=True)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        raise ConfigInvalid(f"local.{key} is {table.get(key)!r}: {what}", key=key) from error
