"""MEMORY.md and USER.md: an agent's notes as files that people may read and edit. `make_files` is the factory."""

from holdfast.providers.files.provider import make_files

__all__ = ["make_files"]
