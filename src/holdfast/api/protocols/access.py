"""The desk of access: what an operator may decide about strangers, people and places. Each act is on record."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.inbox.access import PairingView
from holdfast.inbox.identity import Link, Moved


class AccessDesk(Protocol):
    async def pairs(self, *, agent: str | None = None) -> Sequence[PairingView]:
        """Who asked to be let in, and what was decided; newest first."""
        ...

    async def pair(
        self, code: str, *, admit: bool = True, by: str = "operator", agents: frozenset[str] = frozenset()
    ) -> PairingView:
        """Let a stranger in, or not, for good. Raises `PairingNotFound`, also for a stranger of none of `agents`."""
        ...

    async def unpair(self, principal: str, *, agent: str | None = None, by: str = "operator") -> Sequence[str]:
        """Undo what was decided about somebody; the agents for which anything was."""
        ...

    async def links(self) -> Sequence[Link]: ...

    async def link(self, principal: str, person: str, *, by: str = "operator") -> Link:
        """Raises `IdentityConflict`."""
        ...

    async def unlink(self, principal: str, *, by: str = "operator") -> Link | None:
        """None when there was no link."""
        ...

    async def move(self, old: str, new: str, *, by: str = "operator") -> Moved:
        """Raises `AddressNotFound`, `AddressTaken`, `InvalidAddress` and `InvalidInput`."""
        ...
