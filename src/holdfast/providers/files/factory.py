"""The table [agents.NAME.memory.files] of holdfast.toml, and the provider it configures."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.kernel.settings_table import read_table
from holdfast.memory.naming import PerSession
from holdfast.memory.notes import Capacity
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.files.provider import FilesProvider

Chars = Annotated[int, Meta(ge=100, le=100_000)]


class FilesSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    per_user: bool = True  # also files for each person and each chat, in users/ and chats/
    memory_chars: Chars = Capacity().memory_chars
    user_chars: Chars = Capacity().user_chars


def make_files(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`. Touches no file."""
    settings = read_table("files", setup.settings, FilesSettings)
    capacity = Capacity(memory_chars=settings.memory_chars, user_chars=settings.user_chars)
    provider = FilesProvider(
        setup.folder, setup.tasks, agent=setup.agent, capacity=capacity, per_user=settings.per_user
    )
    return Configured(provider, PerSession())
