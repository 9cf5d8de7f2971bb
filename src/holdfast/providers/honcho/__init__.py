"""Honcho, a memory service that models people: the provider over the vendor's SDK, `honcho-ai` (an extra).

settings (holdfast.toml) -> factory -> provider -> words, rendering -> retain, remember, erase, recall -> client -> SDK.
Only the modules from `provider` on import the SDK, so that naming and settings work without it.
"""

from holdfast.providers.honcho.factory import make_honcho

__all__ = ["make_honcho"]
