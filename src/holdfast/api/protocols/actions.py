"""The audit trail, as a surface asks for it and adds to it what the store cannot know of."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.audit.action import Act, Action, ActionFilter
from holdfast.store.protocols.action_store import EVERY_ACTION


class Actions(Protocol):
    async def list(self, wanted: ActionFilter = EVERY_ACTION, *, after: int = 0, limit: int = 100) -> Sequence[Action]:
        """Newest first; `after` is the `n` of the last one of the page before."""
        ...

    async def record(self, act: Act, subject: str = "") -> None:
        """Put an act on record that changes nothing in the store."""
        ...

    async def refuse(self, act: Act, subject: str, code: str) -> None:
        """Put a refused attempt on record."""
        ...
