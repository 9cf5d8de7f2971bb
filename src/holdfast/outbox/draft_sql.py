"""Drafts in the store: a draft is inserted before its first request and held by one claim at a time (outbox/draft.py).

A draft has a platform id (`receipt`) if and only if it is known to be in the chat.
A draft ends in one of three ways: a reply of its turn takes it over when the reply is claimed (`hand_over`), the draft
was not posted, or no reply follows and the draft is retracted.
"""

from holdfast.inbox.address import parse
from holdfast.kernel.errors import ClaimLost
from holdfast.kernel.ids import DraftId
from holdfast.outbox.draft import HOLD_MS, Draft, DraftFate, DraftIntent, DraftState, StrayDraft
from holdfast.store.script import Script, one, plain, rows, run, verb

HOLD = "select fence, session_id from mailbox where id = :mailbox /*lock*/"
OPEN_TURN = "select open_turn from session where id = :session"
FIND = """
select id, fence, state, address, receipt, held_until - cast(:now as int8) from draft
 where session = :session and turn = :turn /*lock*/"""
BEFORE_IT = "select 1 from reply where address = :address and state in ('pending', 'attempting') limit 1"
NEW = """
insert into draft (id, session, turn, address, fence, state, held_until, at)
values (:id, :session, :turn, :address, :fence, 'intended', cast(:now as int8) + cast(:hold_ms as int8), :now)"""
TAKE = """
update draft set fence = :fence, state = :state, held_until = cast(:now as int8) + cast(:hold_ms as int8)
 where id = :id"""
NOTE = """
update draft set state = :state, receipt = :receipt where id = :id and fence = :fence and state = 'intended'"""
WITHDRAW = "delete from draft where id = :id and fence = :fence and state = 'intended'"
RELEASE = """
update draft set held_until = cast(:now as int8) + cast(:quiet_ms as int8)
 where id = :id and fence = :fence and held_until > cast(:now as int8) + cast(:quiet_ms as int8)"""
# Whether the first reply of a chat has a draft to take over, and whether that draft is held. A reply that was partly
# posted, or may have been, takes over no draft: a later edit would not settle whether the earlier attempt was posted.
HAS_DRAFT = """
(reply.part = 0 and reply.doubts = 0 and exists (
  select 1 from draft
   where draft.session = reply.session and draft.turn = reply.turn and draft.address = reply.address))"""
DRAFT_IS_HELD = """
exists (select 1 from draft
         where draft.session = reply.session and draft.turn = reply.turn and draft.address = reply.address
           and draft.held_until > cast(:now as int8))"""
HAND_OVER = """
delete from draft
 where session = (select session from reply where n = :n) and turn = (select turn from reply where n = :n)
   and held_until <= :now
returning receipt"""
TAKEN_OVER = "update reply set draft = :fate, draft_id = :receipt where n = :n"
STRAY = """
select id, address, receipt from draft
 where held_until <= :now
   and not exists (select 1 from session where session.id = draft.session and session.open_turn = draft.turn)
   and not exists (select 1 from reply
                    where reply.session = draft.session and reply.turn = draft.turn and reply.address = draft.address
                      and reply.state in ('pending', 'attempting'))
 order by held_until, id limit :limit /*skip locked*/"""
BLANKED = """
select id, address, draft_id from reply
 where draft = 'standing' and state in ('failed', 'uncertain') and length(body) = 0
 order by due_at, n limit :limit"""
# A returned draft is ordered last next time, so that drafts that cannot be retracted do not hide others. It is held
# during its retraction, so that a reply of its turn that an operator resends meanwhile does not edit it.
DRAFT_GIVEN = "update draft set held_until = cast(:now as int8) + cast(:hold_ms as int8) where id = :id"
REPLY_GIVEN = "update reply set due_at = :now where id = :id and draft = 'standing' and length(body) = 0"
DROP = "delete from draft where id = :id"
# The draft may stay in the chat for ever. The operator sees that on the reply that was to replace it.
LET_GO = """
update reply set draft = 'unknown'
 where draft is null and (session, turn) in (select session, turn from draft where draft.id = :id)
   and address in (select address from draft where draft.id = :id)"""
RETRACTED = "update reply set draft = :fate where id = :id and draft = 'standing' and length(body) = 0"


@verb
def intend_draft(intent: DraftIntent) -> Script[Draft | None]:
    """Hold the turn's draft for this claim, creating it if necessary; None while the draft must wait."""
    yield from _require_open(intent)
    row = yield from one(FIND, session=intent.session, turn=intent.turn)
    is_mine = row is not None and row[1] == intent.fence
    if not is_mine and (yield from one(BEFORE_IT, address=str(intent.address))) is not None:
        return None  # it would appear before an older reply
    if row is None:
        new = {"id": intent.id, "session": intent.session, "turn": intent.turn, "address": str(intent.address)}
        yield from run(NEW, **new, fence=intent.fence, hold_ms=intent.hold_ms)
        return Draft(id=intent.id, fence=intent.fence, state=DraftState.INTENDED, address=intent.address)
    id_, _, state, address, receipt, held_for_ms = row
    if not is_mine and held_for_ms > 0:
        return None
    if state == DraftState.INTENDED.value and id_ != intent.id:
        state = DraftState.UNKNOWN.value  # its last holder stored no outcome
    yield from run(TAKE, id=id_, state=state, fence=intent.fence, hold_ms=intent.hold_ms)
    return Draft(
        id=DraftId(id_),
        fence=intent.fence,
        state=DraftState(state),
        address=parse(address),
        receipt=receipt or "",
    )


def _require_open(intent: DraftIntent) -> Script[None]:
    held = yield from one(HOLD, mailbox=intent.mailbox)
    if held is None or held != (intent.fence, intent.session):
        raise ClaimLost(f"fence {intent.fence} does not hold {intent.mailbox}", mailbox=intent.mailbox)
    row = yield from one(OPEN_TURN, session=intent.session)
    if row is None or row[0] != intent.turn:
        raise ClaimLost(f"turn {intent.turn} of {intent.session} is not open", session=intent.session)


@verb
def note_draft(draft: Draft, state: DraftState | None, *, receipt: str = "") -> Script[None]:
    """Store the outcome of the first request; None means not posted. Only the first outcome counts."""
    if state is None:
        yield from run(WITHDRAW, id=draft.id, fence=draft.fence)
    else:
        yield from run(NOTE, id=draft.id, fence=draft.fence, state=state.value, receipt=plain(receipt) or None)


@verb
def release_draft(draft: Draft, *, quiet_ms: int = 0) -> Script[None]:
    yield from run(RELEASE, id=draft.id, fence=draft.fence, quiet_ms=quiet_ms)


def hand_over(n: int) -> Script[None]:
    """Let the reply `n`, during its claim, take over the draft of its turn. A draft without an id stays unknown.

    A turn that continues after a question may hold the draft again; then the turn keeps it.
    """
    row = yield from one(HAND_OVER, n=n)
    if row is not None:
        fate = DraftFate.UNKNOWN if row[0] is None else DraftFate.STANDING
        yield from run(TAKEN_OVER, n=n, fate=fate.value, receipt=row[0])


@verb
def take_stray_drafts(*, limit: int) -> Script[tuple[StrayDraft, ...]]:
    """Drafts that are in a chat and that no reply will replace. Rows of drafts without an id are deleted.

    Each draft is returned to one caller at a time; one that was not retracted is returned again after its hold.
    """
    found = [*(yield from rows(STRAY, limit=limit)), *(yield from rows(BLANKED, limit=limit))]
    standing: list[StrayDraft] = []
    for id_, address, receipt in found:
        if receipt is None:
            yield from run(LET_GO, id=id_)
            yield from run(DROP, id=id_)
        else:
            yield from run(DRAFT_GIVEN, id=id_, hold_ms=HOLD_MS)
            yield from run(REPLY_GIVEN, id=id_)
            standing.append(StrayDraft(id=id_, address=parse(address), receipt=receipt))
    return tuple(standing)


@verb
def drop_draft(stray: StrayDraft) -> Script[None]:
    yield from run(DROP, id=stray.id)
    yield from run(RETRACTED, id=stray.id, fate=DraftFate.RETRACTED.value)
