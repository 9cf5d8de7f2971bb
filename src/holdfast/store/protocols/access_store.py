"""Who may come in and who is whom, as the store keeps it. Part of the ports `Store` and `Reader`."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.inbox.access import PAIRING, Asked, PairingAsk, PairingDecision, PairingPolicy, PairingView
from holdfast.inbox.address import Address
from holdfast.inbox.identity import ChatMove, Link, LinkRequest, Moved
from holdfast.kernel.ids import AgentName, OperationId, Principal

LISTED_MAX = 1_000


class AccessStore(Protocol):
    async def ask_pairing(self, ask: PairingAsk, *, policy: PairingPolicy = PAIRING) -> Asked:
        """Put a stranger's request on record and tell them, in one transaction; once per stranger and hour.

        Repeated, after an unknown commit too, it gives the code that holds and tells nothing twice.
        """
        ...

    async def decide_pairing(self, decision: PairingDecision, *, policy: PairingPolicy = PAIRING) -> PairingView:
        """Let a stranger in, and tell them, or not. Raises `PairingNotFound`."""
        ...

    async def unpair(
        self, principal: Principal, *, agent: AgentName | None = None, by: str, operation: OperationId
    ) -> Sequence[str]:
        """Undo what was decided about somebody; the agents for which anything was."""
        ...

    async def link(self, request: LinkRequest) -> Link:
        """From now on the principal is the person. Raises `IdentityConflict` for what would be ambiguous."""
        ...

    async def unlink(self, principal: Principal, *, by: str, operation: OperationId) -> Link | None:
        """Take a link back; None when there was none. What was said while it held stays the person's."""
        ...

    async def move_address(self, old: Address, new: Address, *, by: str, operation: OperationId) -> Moved:
        """Make the new address lead to the old one's mailbox, for ever (D3).

        Raises `AddressNotFound`, and `AddressTaken` when the new one has a history of its own.
        """
        ...

    async def move_chat(self, move: ChatMove) -> Moved:
        """The same for every address of a chat. What waits for an answer is answered at the new ones."""
        ...


class AccessReader(Protocol):
    async def admitted(self, agent: AgentName, principal: Principal) -> bool:
        """Whether an operator let them in, under this principal or another of the same person."""
        ...

    async def pairings(
        self, *, agent: AgentName | None = None, limit: int = LISTED_MAX, policy: PairingPolicy = PAIRING
    ) -> Sequence[PairingView]:
        """Who asked to be let in, and what was decided; newest first."""
        ...

    async def links(self, *, limit: int = LISTED_MAX) -> Sequence[Link]:
        """By person."""
        ...

    async def kin(self, principal: Principal) -> Sequence[Principal]:
        """Every principal of the same person, this one included."""
        ...
