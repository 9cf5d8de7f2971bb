"""Composed verbs of a worker: a claim that opens the turn, a step that returns the context, an end that goes on.

Each is one transaction. They are made of the verbs that also exist alone, and give the same results as these one after
another.
"""

from holdfast.inbox.mail_sql import read_mail
from holdfast.inbox.mailbox import Claim, SessionHead
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import NodeId
from holdfast.sessions.command_rights import NotAllowed
from holdfast.sessions.history_sql import next_ready
from holdfast.store.node_sql import claim_mailboxes, release_claim
from holdfast.store.script import Script, claim_name, one, verb
from holdfast.turns.context import Context
from holdfast.turns.context_sql import read_context
from holdfast.turns.turn import Step, Turn, TurnCommit, TurnOpening
from holdfast.turns.turn_sql import TURN_FENCE, append_step, commit_turn, insert_turn, open_turn
from holdfast.turns.work import ClaimedWork, EndedTurn, KnownContexts, Planner, Work


@verb(lock=claim_name)
def claim_work(
    node: NodeId, planner: Planner | None, known: KnownContexts, *, name: str = "", limit: int
) -> Script[ClaimedWork]:
    """Claim ready mailboxes and open the next turn of each. Without a planner the mailboxes are only claimed."""
    claims = yield from claim_mailboxes(node, name=name, limit=limit)
    work = []
    for claim in claims:
        begun = None if planner is None else (yield from _begin(claim, planner, known))
        work.append(begun or Work(claim=claim))
    ready_at = None if len(claims) == limit else (yield from next_ready())
    return ClaimedWork(tuple(work), ready_at)


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
    work = None if planner is None else (yield from _begin(claim, planner, known))
    if work is None:  # this call is repeated, and its first result was lost
        yield from release_claim(claim)
    return EndedTurn(committed, work)


def _begin(claim: Claim, planner: Planner, known: KnownContexts) -> Script[Work | None]:
    """Read the mail and open the turn that the planner asks for; None if the claim was already released.

    A turn that this claim has opened before is returned as opened: the result of an earlier call was lost.
    """
    mail = yield from read_mail(claim, limit=planner.mail_max(claim))
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
        turn = yield from _open(claim, opening, mail.head)
    context = yield from read_context(turn.session, known(turn.session))
    return Work(claim=claim, mail=mail, turn=turn, context=context)


def _open(claim: Claim, opening: TurnOpening, head: SessionHead | None) -> Script[Turn]:
    """Open a turn in a transaction that holds the claim."""
    if head is not None and head.is_open:
        return (yield from insert_turn(claim, opening, head))
    opened = yield from open_turn(claim, opening)  # begins or reopens the session
    if isinstance(opened, NotAllowed):
        raise InvariantBroken(f"plain messages of {claim.mailbox} were refused as a command ({opened.code})")
    return opened
