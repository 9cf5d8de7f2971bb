"""Identity: one person has several principals, one place several addresses. Only an explicit act creates either.

Rule 1: a link is one step deep. A person is named by one principal or by a separate name; a link never targets a
        linked principal. So there are no chains and no cycles, and every message has one person.
Rule 2: a link applies to messages that arrive later, and lets the person see what all their principals wrote before.
        Unlinking reverses that; neither rewrites stored rows.
Rule 3: a place with a new address keeps its mailbox: the address becomes an alias, and providers keep the names made
        from the first address (D3). An address in use is never reassigned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.inbox.address import Address, check_part
from holdfast.kernel.errors import IdentityConflict, InvalidInput
from holdfast.kernel.ids import AgentName, Instant, OperationId, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """A request to make `principal` an account of `person`. Raises `InvalidInput` and `IdentityConflict`."""

    principal: Principal
    person: Principal
    by: str  # the requester, for the audit trail
    operation: OperationId

    def __post_init__(self) -> None:
        check_part("principal", self.principal)
        check_part("person", self.person)
        if self.principal == self.person:
            raise IdentityConflict(f"{self.principal!r} is that person already", principal=self.principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An account that is linked to a person."""

    principal: Principal
    person: Principal
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The addresses that now lead to the older mailbox, and those that stay because they are in use."""

    aliases: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMove:
    """A platform changed a chat's id. Every address of the chat moves, including threads and users."""

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
    """The reason why the link would be ambiguous, or None.

    `own` and `theirs` are the present persons of both ends; `followers` are the principals linked to `principal`.
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
