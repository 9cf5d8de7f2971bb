"""Work of a worker: a claim that opens the turn, a step that returns the context, an end that goes on.

The transaction that claims a mailbox also reads its mail, opens a turn and reads the context, so a worker starts with
everything it needs. The transaction that ends a turn continues the same way, or releases the claim. Each verb is made
of verbs that also exist alone, and gives the same result as these one after another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdfast.inbox.mailbox import Claim, Mail, take
from holdfast.inbox.mailbox_sql import claim_mailboxes, mail_of, mail_queries, read_mail, release_claim
from holdfast.inbox.message import Inbound, MessageKind
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import NodeId, SessionId
from holdfast.sessions.command import CommandVerb
from holdfast.sessions.command_rights import NotAllowed
from holdfast.store.script import Script, claim_name, locked_verb, one, together, verb
from holdfast.turns.context import Context
from holdfast.turns.context_sql import context_of, context_queries, read_context
from holdfast.turns.open_turn_sql import insert_turn, open_turn
from holdfast.turns.policy import Arrivals, TurnPolicy
from holdfast.turns.turn import Committed, Step, Turn, TurnCommit, TurnOpening
from holdfast.turns.turn_sql import TURN_FENCE, append_step, commit_turn

MAIL_READ_MAX = 64
KnownContexts: TypeAlias = Callable[[SessionId], Context | None]  # contexts in memory, brought up to date when read


class Planner(Protocol):
    """Decides inside a transaction what the worker does with its mail. It may be called again with other rows."""

    def mail_max(self, claim: Claim) -> int:
        """The number of waiting messages that `opening` needs to see."""

    def opening(self, claim: Claim, mail: Mail) -> TurnOpening | None:
        """The turn to open now; None if the mail has no message that opens one."""


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
class EndedTurn:
    """The result of ending a turn; without `next` the claim was released."""

    committed: Committed
    next: Work | None = None


def mail_needed(policy: TurnPolicy) -> int:
    """The number of waiting messages that decide about the next turn."""
    return MAIL_READ_MAX if policy.arrivals is Arrivals.COLLECT else 1


def opening_of(mail: Mail, policy: TurnPolicy, new_session: Callable[[], SessionId]) -> TurnOpening | None:
    """The turn that the first waiting messages open; None if a turn is open, the agent is paused, or they open none."""
    if mail.turn is not None or mail.is_paused or not mail.waiting:
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


# --- verbs


@locked_verb(claim_name)
def claim_work(
    node: NodeId, planner: Planner | None, known: KnownContexts, *, name: str = "", limit: int
) -> Script[tuple[Work, ...]]:
    """Claim ready mailboxes and open the next turn of each. Without a planner the mailboxes are only claimed."""
    claims = yield from claim_mailboxes(node, name=name, limit=limit)
    if planner is None:
        return tuple(Work(claim=claim) for claim in claims)
    asked = [query for claim in claims for query in mail_queries(claim, planner.mail_max(claim))]
    found = yield from together(*asked)
    work = []
    for claim, boxes, waiting in zip(claims, found[::2], found[1::2], strict=True):
        mail = yield from mail_of(claim, boxes, waiting)
        work.append((yield from _begin(claim, mail, planner, known)) or Work(claim=claim))
    return tuple(work)


@verb
def take_step(claim: Claim, turn: Turn, step: Step, known: KnownContexts) -> Script[tuple[Turn, Context]]:
    """Append the entries of a step and read the context that they are part of."""
    stepped = yield from append_step(claim, turn, step)
    return stepped, (yield from read_context(turn.session, known(turn.session)))


@verb
def end_turn(
    claim: Claim, turn: Turn, commit: TurnCommit, planner: Planner | None, known: KnownContexts
) -> Script[EndedTurn]:
    """Commit a turn, then continue with the waiting mail. Without mail or a planner the claim is released."""
    committed = yield from commit_turn(claim, turn, commit, lambda left: planner is not None and left > 0)
    if committed.released:
        return EndedTurn(committed)
    work = None
    if planner is not None:
        mail = yield from read_mail(claim, limit=planner.mail_max(claim))
        work = yield from _begin(claim, mail, planner, known)
    if work is None:  # this call is repeated, and its first result was lost
        yield from release_claim(claim)
    return EndedTurn(committed, work)


def _begin(claim: Claim, mail: Mail, planner: Planner, known: KnownContexts) -> Script[Work | None]:
    """Open the turn that the planner asks for; None if the claim was already released.

    A turn that this claim has opened before is returned as opened: the result of an earlier call was lost.
    """
    if not mail.is_owned:
        return None
    turn = mail.turn
    if turn is not None:
        row = yield from one(TURN_FENCE, session=turn.session, n=turn.n)
        if row is None or row[0] != claim.fence:
            return Work(claim=claim, mail=mail)
    else:
        opening = planner.opening(claim, mail)
        if opening is None:
            return Work(claim=claim, mail=mail)
        if mail.head is not None and mail.head.is_open:
            cached = known(opening.session)
            queries = context_queries(opening.session, cached)
            turn, found = yield from insert_turn(claim, opening, mail.head, queries)
            context = yield from context_of(opening.session, cached, found)
            return Work(claim=claim, mail=mail, turn=turn, context=context)
        turn = yield from _open(claim, opening)
    context = yield from read_context(turn.session, known(turn.session))
    return Work(claim=claim, mail=mail, turn=turn, context=context)


def _open(claim: Claim, opening: TurnOpening) -> Script[Turn]:
    """Open a turn whose session begins or opens again with it."""
    opened = yield from open_turn(claim, opening)
    if isinstance(opened, NotAllowed):
        raise InvariantBroken(f"plain messages of {claim.mailbox} were refused as a command ({opened.code})")
    return opened
