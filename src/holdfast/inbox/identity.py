"""Identity: one person, several principals; one place, several addresses. Both only ever by an explicit act.

Rule 1: a link is one step deep. A person is named by one principal or by a name of its own; nothing is linked to what
        is itself linked, so there is no chain, no cycle and no guess about whose words are whose.
Rule 2: links act on what arrives from then on, and widen what the person may see to what all their principals said
        before. Taking a link back narrows it again; nothing stored is rewritten either way.
Rule 3: a re-keyed place keeps its mailbox: the new address is an alias, and names at providers stay those of the first
        address (D3). An address that is in use is never taken over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.inbox.address import Address, check_part
from holdfast.kernel.errors import IdentityConflict, InvalidInput
from holdfast.kernel.ids import AgentName, Instant, OperationId, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """`principal` is the person from now on. Raises `InvalidInput` and `IdentityConflict`."""

    principal: Principal
    person: Principal
    by: str  # who asked for it, for the audit
    operation: OperationId

    def __post_init__(self) -> None:
        check_part("principal", self.principal)
        check_part("person", self.person)
        if self.principal == self.person:
            raise IdentityConflict(f"{self.principal!r} is that person already", principal=self.principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    principal: Principal
    person: Principal
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Which addresses lead to an older one's mailbox now, and which could not be moved because they are in use."""

    aliases: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMove:
    """A platform gave a chat another id. Every address of the chat moves, threads and users included."""

    agent: AgentName
    channel: str
    old_chat: str
    new_type: str
    new_chat: str
    by: str
    operation: OperationId

    def __post_init__(self) -> None:
        check_part("old chat", self.old_chat)
        Address(agent=self.agent, channel=self.channel, type=self.new_type, chat=self.new_chat)

    def renamed(self, old: Address) -> Address:
        return replace(old, type=self.new_type, chat=self.new_chat)


def why_not_linked(request: LinkRequest, own: Principal, theirs: Principal, followers: Sequence[str]) -> str | None:
    """Why the link would be ambiguous; None when it may be made.

    `own` and `theirs` are the persons of the two now; `followers` are the others who are linked to the principal.
    """
    principal, person = request.principal, request.person
    if own not in (principal, person):
        return f"{principal} is linked to {own} already; unlink it first"
    if theirs != person:
        return f"{person} is itself linked to {theirs}; link {principal} to {theirs} instead"
    if followers:
        return f"{', '.join(followers[:3])} is linked to {principal}; link {person} to {principal} instead"
    return None


def check_move(old: Address, new: Address) -> None:
    """Raises `InvalidInput`."""
    if old.agent != new.agent:
        raise InvalidInput(f"{old} is not of the agent of {new}; a conversation stays with its agent", address=str(new))
    if old == new:
        raise InvalidInput(f"{old} and the new address are the same", address=str(new))
