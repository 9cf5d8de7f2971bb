"""A mailbox: the place of a conversation. One worker at a time, proved by a fence.

The session of a message is chosen when the message is processed, so `hello`, `/new`, `hi` sent while the agent
is busy land in the right sessions, in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.inbox.agent_chain import Chain
from holdfast.inbox.message import Inbound, MessageKind
from holdfast.kernel.ids import AgentName, Instant, MailboxId, NodeId, Principal, SessionId
from holdfast.memory.naming import CallerDirectory
from holdfast.turns.policy import Arrivals
from holdfast.turns.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write to a mailbox and its live session; void as soon as a younger claim exists."""

    mailbox: MailboxId
    fence: int
    node: NodeId
    agent: AgentName
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What a claimed mailbox holds: the turn to resume, if any, and the head of what waits."""

    session: SessionId | None
    turn: Turn | None
    waiting: tuple[Inbound, ...]
    depth: int
    unattended: int  # turns in a row without a human


def plain_run(waiting: Sequence[Inbound]) -> tuple[Inbound, ...]:
    """The unbroken run of plain messages of one principal, written in one place, at the head (D10, D18).

    What came through other agents is another turn: its tools are others.
    """
    run: list[Inbound] = []
    for item in waiting:
        if item.kind is not MessageKind.TEXT or (run and source_of(item) != source_of(run[0])):
            break
        run.append(item)
    return tuple(run)


def source_of(item: Inbound | Turn) -> tuple[Principal, CallerDirectory, Chain]:
    """What messages of one turn have in common."""
    return item.principal, item.where, item.chain


def take(waiting: Sequence[Inbound], policy: Arrivals) -> tuple[Inbound, ...]:
    """The messages that the next turn answers: one, or the whole run where the policy collects."""
    run = plain_run(waiting)
    return run if policy is Arrivals.COLLECT else run[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxView:
    mailbox: MailboxId
    agent: AgentName
    address: str
    session: SessionId | None
    depth: int
    owner: str | None
    fence: int
    ready_at: Instant | None
