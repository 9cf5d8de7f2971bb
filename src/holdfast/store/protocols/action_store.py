"""The audit trail, as the store keeps it. Part of the ports `Store` and `Reader`."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.audit.action import Act, Action, ActionFilter

EVERY_ACTION = ActionFilter()


class ActionStore(Protocol):
    async def record_action(self, act: Act, subject: str = "", *, agent: str = "") -> None:
        """For an act that changes nothing in the store itself. All others write their own row."""
        ...

    async def refuse_action(self, act: Act, subject: str, code: str) -> None:
        """Put a refused attempt on record: the first of an actor and hour by themselves, the rest as a count."""
        ...

    async def note_settings(self, digest: str) -> bool:
        """Record `config.changed` unless the newest such row names this digest; whether it was recorded."""
        ...


class ActionReader(Protocol):
    async def actions(
        self, wanted: ActionFilter = EVERY_ACTION, *, after: int = 0, limit: int = 100, oldest_first: bool = False
    ) -> Sequence[Action]:
        """Newest first, unless said; `after` is the `n` of the last one of the page before."""
        ...

    async def last_action(self) -> tuple[int, bytes]:
        """The number and the digest of the newest action, kept apart from the rows; (0, NO_DIGEST) at first."""
        ...
