"""Holdfast: the session and memory runtime for long-running chat agents.

Nothing lost, nothing doubled, nothing misattributed, and you can prove it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.kernel.errors import HoldfastError
    from holdfast.runtime.library import SyncRuntime, open, open_sync  # noqa: A004 - `holdfast.open` reads well
    from holdfast.runtime.runtime import Runtime
    from holdfast.runtime.views import Delta
    from holdfast.turns.policy import AgentPolicy, Arrivals

__version__ = "0.4.0"

# In the order of the flow; loaded on first use, so that importing the package costs next to nothing.
_PUBLIC = {
    "open": "holdfast.runtime.library",
    "open_sync": "holdfast.runtime.library",
    "Runtime": "holdfast.runtime.runtime",
    "SyncRuntime": "holdfast.runtime.library",
    "Delta": "holdfast.runtime.views",
    "AgentPolicy": "holdfast.turns.policy",
    "Arrivals": "holdfast.turns.policy",
    "HoldfastError": "holdfast.kernel.errors",
}
__all__ = [
    "AgentPolicy",
    "Arrivals",
    "Delta",
    "HoldfastError",
    "Runtime",
    "SyncRuntime",
    "open",
    "open_sync",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _PUBLIC:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(_PUBLIC[name]), name)
