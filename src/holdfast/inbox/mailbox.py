"""A mailbox: the queue of one conversation. One worker at a time processes it, guarded by a fence.

A message gets its session when it is processed, so `hello`, `/new`, `hi` sent while the agent is busy reach the right
sessions, in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.inbox.agent_chain import Chain
from holdfast.inbox.message import Inbound, MessageKind
from holdfast.kernel.ids import AgentName, Instant, MailboxId, NodeId, Principal, SessionId
from holdfast.memory.delivery import CallerDirectory
from holdfast.turns.policy import Arrivals
from holdfast.turns.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write to a mailbox and its live session; a newer claim voids it."""

    mailbox: MailboxId
    fence: int
    node: NodeId
    agent: AgentName
    address: str


@dataclass(frozen=True, slots=True)
class SessionHead:
    """Where the live session of a mailbox stands, inside the transaction that read it."""

    last_seq: int
    turns: int
    epoch: int
    is_open: bool  # neither expiring nor closed
    now: Instant  # the store's clock in that transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """The contents of a claimed mailbox: the turn to resume, if any, and the first waiting messages."""

    session: SessionId | None
    turn: Turn | None
    waiting: tuple[Inbound, ...]
    depth: int
    unattended: int  # consecutive turns without a human
    head: SessionHead | None = None  # None without a live session
    is_owned: bool = True  # the claim was not released; without it, its fence may still be the newest


def plain_run(waiting: Sequence[Inbound]) -> tuple[Inbound, ...]:
    """The leading plain messages of one principal, from one directory and one chain (D10, D18).

    A message with another chain starts another turn, because its tools differ.
    """
    run: list[Inbound] = []
    for item in waiting:
        if item.kind is not MessageKind.TEXT or (run and source_of(item) != source_of(run[0])):
            break
        run.append(item)
    return tuple(run)


def source_of(item: Inbound | Turn) -> tuple[Principal, CallerDirectory, Chain]:
    """The properties that all messages of one turn share."""
    return item.principal, item.where, item.chain


def take(waiting: Sequence[Inbound], policy: Arrivals) -> tuple[Inbound, ...]:
    """The messages of the next turn: one, or the whole run if the policy collects."""
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
