"""Honcho, a memory service that models people: a provider over the vendor's SDK, `honcho-ai` (an extra).

factory (settings) -> provider -> retain, remember, erase, recall, migrate -> client -> SDK.
Only `provider` and the modules behind it import the SDK, so naming and settings work without it.
"""

from holdfast.providers.honcho.factory import make_honcho

__all__ = ["make_honcho"]
