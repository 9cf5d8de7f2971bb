"""The memory plugin for Hermes. `holdfast hermes install` copies this folder to `$HERMES_HOME/plugins/holdfast`.

Hermes finds the folder by the name register_memory_provider in this file, and calls `register` for each agent.
"""

from typing import Any

from .provider import HoldfastMemory  # noqa: TID252 - this folder is copied; its package has another name there

__all__ = ["HoldfastMemory", "register"]


def register(ctx: Any) -> None:  # noqa: ANN401 - the context of Hermes
    """Offer one new provider to Hermes."""
    ctx.register_memory_provider(_provider())


def _provider() -> HoldfastMemory:
    """A provider that is also an instance of Hermes' own base class, where Hermes is installed."""
    try:
        from agent.memory_provider import MemoryProvider  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:
        return HoldfastMemory()
    made = type("HoldfastMemory", (HoldfastMemory, MemoryProvider), {})()
    if not isinstance(made, HoldfastMemory):
        raise TypeError("the provider has an unexpected base")
    return made
