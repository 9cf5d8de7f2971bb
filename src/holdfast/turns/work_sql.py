"""Composed verbs of a worker: a claim that opens the turn, a step that returns the context, an end that goes on.

Each is one transaction. They are made of the verbs that also exist alone, and give the same results as these one after
another.
"""

from holdfast.inbox.mailbox import Claim, Mail
from holdfast.inbox.mailbox_sql import claim_mailboxes, mail_of, mail_queries, read_mail, release_claim
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import NodeId
from holdfast.sessions.command_rights import NotAllowed
from holdfast.store.script import Script, claim_name, one, together, verb
from holdfast.turns.context import Context
from holdfast.turns.context_sql import context_of, context_queries, read_context
from holdfast.turns.open_turn_sql import insert_turn, open_turn
from holdfast.turns.turn import Step, Turn, TurnCommit, TurnOpening
from holdfast.turns.turn_sql import TURN_FENCE, append_step, commit_turn
from holdfast.turns.work import EndedTurn, KnownContexts, Planner, Work


@verb(lock=claim_name)
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
