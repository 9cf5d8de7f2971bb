"""Work: what a claim gives its worker, and which messages open the next turn.

The transaction that claims a mailbox also reads its mail, opens a turn and reads the context, so a worker starts with
everything it needs. The transaction that ends a turn continues the same way, or releases the claim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdfast.inbox.mailbox import Claim, Mail, take
from holdfast.inbox.message import Inbound, MessageKind
from holdfast.kernel.ids import Instant, SessionId
from holdfast.sessions.command import CommandVerb
from holdfast.turns.context import Context
from holdfast.turns.policy import Arrivals, TurnPolicy
from holdfast.turns.turn import Committed, Turn, TurnOpening

MAIL_READ_MAX = 64
KnownContexts: TypeAlias = Callable[[SessionId], Context | None]  # contexts in memory, brought up to date when read


class Planner(Protocol):
    """Decides inside a transaction what the worker does with its mail. It may be called again with other rows."""

    def mail_max(self, claim: Claim) -> int:
        """The number of waiting messages that `opening` needs to see."""
        ...

    def opening(self, claim: Claim, mail: Mail) -> TurnOpening | None:
        """The turn to open now; None if the mail has no message that opens one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A claimed mailbox. `turn` and `context` are set if the transaction that made this value opened the turn.

    `mail` is None if the transaction did not read it.
    """

    claim: Claim
    mail: Mail | None = None
    turn: Turn | None = None
    context: Context | None = None


@dataclass(frozen=True, slots=True)
class ClaimedWork:
    work: tuple[Work, ...]
    ready_at: Instant | None  # when the next free mailbox becomes ready; None also if the limit was reached


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """The result of ending a turn; without `next` the claim was released."""

    committed: Committed
    next: Work | None = None


def mail_needed(policy: TurnPolicy) -> int:
    """The number of waiting messages that decide about the next turn."""
    return MAIL_READ_MAX if policy.arrivals is Arrivals.COLLECT else 1


def opening_of(mail: Mail, policy: TurnPolicy, new_session: Callable[[], SessionId]) -> TurnOpening | None:
    """The turn that the first waiting messages open; None if a turn is open, or if the first message opens none."""
    if mail.turn is not None or not mail.waiting:
        return None
    head = mail.waiting[0]
    if head.kind is not MessageKind.TEXT or is_unattended(mail, head, policy):
        return None
    items = take(mail.waiting, policy.arrivals)
    return TurnOpening(
        session=mail.session or new_session(),
        messages=tuple(item.message for item in items),
        entries=tuple(item.said() for item in items),
        principal=head.principal,
        human=any(item.human for item in items),
        where=head.where,
        chain=head.chain,
    )


def is_unattended(mail: Mail, head: Inbound, policy: TurnPolicy) -> bool:
    """The loop guard: too many turns in a row without a human (D12). Among commands, only /retry opens a turn."""
    takes_turn = head.command is None or head.command.verb is CommandVerb.RETRY
    return takes_turn and not head.human and mail.unattended >= policy.unattended_max
