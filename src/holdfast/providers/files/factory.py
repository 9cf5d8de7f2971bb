"""The table [agents.NAME.memory.files] of holdfast.toml, and the provider it asks for."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.core.errors import ConfigInvalid
from holdfast.core.memory import Capacity
from holdfast.core.naming import PerSession
from holdfast.ports.provider import Configured, ProviderSetup
from holdfast.providers.files.provider import FilesProvider

Chars = Annotated[int, Meta(ge=100, le=100_000)]


class FilesSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    per_user: bool = False  # what is known about a person is kept apart, in users/<person>/USER.md
    memory_chars: Chars = Capacity().memory_chars
    user_chars: Chars = Capacity().user_chars


def make_files(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`; touches no file."""
    settings = _read(setup.settings)
    capacity = Capacity(memory_chars=settings.memory_chars, user_chars=settings.user_chars)
    provider = FilesProvider(
        setup.folder, setup.tasks, agent=setup.agent, capacity=capacity, per_user=settings.per_user
    )
    return Configured(provider, PerSession())


def _read(table: Mapping[str, object]) -> FilesSettings:
    known = FilesSettings.__struct_fields__
    unknown = next((key for key in table if key not in known), None)
    if unknown is not None:
        raise ConfigInvalid(f"files: {unknown!r} is no setting; there are {', '.join(known)}", key=unknown)
    try:
        return msgspec.convert(dict(table), FilesSettings, strict=True)
    except msgspec.ValidationError as error:
        key = str(error).rpartition("`$.")[2].rstrip("`")
        what = str(error).partition(" - at ")[0]
        raise ConfigInvalid(f"files.{key} is {table.get(key)!r}: {what}", key=key) from error
