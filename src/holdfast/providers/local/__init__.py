"""The local provider: a search index of turns and notes, in a file of its own (D30). `make_local` is the factory."""

from holdfast.providers.local.provider import LocalProvider, make_local

__all__ = ["LocalProvider", "make_local"]
