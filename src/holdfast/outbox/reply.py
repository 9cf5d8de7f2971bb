"""Replies: the state of a reply after each attempt to send a piece of it. This module is pure (D26).

Rule 1: `doubts` is 0 while every outcome is known, 1 while the next piece may already have been posted, and 2 once a
        piece may have been posted twice or its outcome cannot be determined: then no piece is resent automatically.
Rule 2: a doubt is resolved only by a platform that rejects a repeated nonce, while it still remembers the first one,
        or by a channel that verified the outcome.
Rule 3: the first piece of a reply with a draft is an edit of the draft. An edit may be repeated, and a successful edit
        resolves all doubts about earlier ones. If the draft cannot be edited any more, or too many edits had unknown
        outcomes, the doubt stays: the draft may already show the reply.
Rule 4: a piece that was not posted is retried, however long the platform is down: after the wait that the platform
        asked for, or else with exponential backoff. A reply that fails for a day while others succeed is failed, so
        that it does not block its chat for ever.
"""

from dataclasses import dataclass, field, replace
from enum import Enum

from holdfast.inbox.address import Address
from holdfast.inbox.agent_chain import NOBODY, Chain
from holdfast.kernel.ids import Instant, MessageId, NodeId, ReplyId
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError, short
from holdfast.outbox.draft import DraftFate
from holdfast.outbox.post import Declined, Doubtful, NotSent, OnDoubt, Post, ReplyState, SendOutcome, Sent
from holdfast.turns.policy import DAY_MS

CLEAR, OPEN_DOUBT, BEYOND_DOUBT = 0, 1, 2
CHAT_PARTS = 5  # parts of an address up to the chat: `agent`, the agent, the channel, the type, the chat
POSSIBLE_DUPLICATE = "possible duplicate: an earlier attempt may have been posted too"
NOBODY_KNOWS = "nobody can say whether it was posted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyClaim:
    """A reply claimed by one node. Its fence is (node, part, attempt). Durations are measured by the store's clock."""

    n: int
    id: ReplyId
    node: NodeId
    attempt: int  # at the current piece
    part: int  # number of pieces sent
    doubts: int
    address: Address
    text: str
    message: MessageId
    in_reply_to: str = ""
    hop: int = 0
    chain: Chain = NOBODY
    is_answer: bool = False
    doubtful_for_ms: int = 0  # since the start of the attempt that may have been posted
    waited_ms: int = 0  # since the reply was committed
    is_followed: bool = False  # whether another reply of the account waits
    draft: str = ""  # the platform's id of the draft that the first piece replaces

    @property
    def edits(self) -> bool:
        """Whether the next piece replaces a draft."""
        return bool(self.draft) and self.part == 0

    @property
    def chat(self) -> str:
        return chat_of(str(self.address))

    def post(self, pieces: tuple[str, ...]) -> Post:
        """The next piece, as a channel sends it."""
        return Post(
            reply=self.id,
            part=self.part,
            parts=len(pieces),
            address=self.address,
            text=pieces[self.part],
            message=self.message,
            in_reply_to=self.in_reply_to,
            hop=self.hop,
            chain=self.chain,
            is_answer=self.is_answer,
            attempt=self.attempt,
            doubtful=self.doubts == OPEN_DOUBT,
            doubtful_for_ms=self.doubtful_for_ms if self.doubts == OPEN_DOUBT else 0,
        )

    def after(self, settlement: "ReplySettlement") -> "ReplyClaim":
        """The claim for the next piece, or for the first piece without its draft."""
        attempt = self.attempt if settlement.part == self.part else 1
        draft = self.draft if settlement.draft is None else ""
        doubts = settlement.doubts
        return replace(self, part=settlement.part, attempt=attempt, doubts=doubts, doubtful_for_ms=0, draft=draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySettlement:
    """The new state of a reply, to be stored. `ATTEMPTING` means that the next piece follows."""

    state: ReplyState
    part: int
    doubts: int
    delay_ms: int = 0
    receipt: str | None = None
    reason: str | None = None
    draft: DraftFate | None = None  # the draft's fate; None if it is unchanged
    vendor: VendorError = NO_ANSWER


class Kept(Enum):
    """The effect of a settlement."""

    GOES_ON = "goes_on"  # the claim continues with the next piece
    DONE = "done"  # the claim ended
    VOID = "void"  # the claim was already lost: nothing changed


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPolicy:
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=1_000, delay_ms_max=300_000))
    attempts_max: int = 40  # applies only after `give_up_ms`
    doubtful_edits_max: int = 8  # about four minutes: an unprovable edit must not block its chat
    give_up_ms: int = DAY_MS
    send_wait_ms: int = 60_000
    send_within_ms: int = 5_000  # since the claim; an older claim may be lost, and a fence does not stop a request
    sends_max: int = 8  # concurrent, per bot account


def after_send(
    claim: ReplyClaim,
    outcome: SendOutcome,
    *,
    parts: int,
    on_doubt: OnDoubt,
    nonce_lasts_ms: int,
    pace_ms: int,
    elapsed_ms: int,
    policy: SendPolicy,
    chance: float,
) -> ReplySettlement:
    """The settlement after an attempt at the piece `claim.part`.

    `elapsed_ms` is the time since the claim request. `pace_ms` is the chat's minimum interval between two pieces.
    """
    if claim.edits and parts and not isinstance(outcome, NotSent):
        return _edited(claim, outcome, parts=parts, on_doubt=on_doubt, pace_ms=pace_ms, policy=policy, chance=chance)
    match outcome:
        case Sent(receipt, looked):
            is_known = looked or claim.doubtful_for_ms + elapsed_ms <= nonce_lasts_ms
            proved = claim.doubts == OPEN_DOUBT and is_known
            return _sent(claim, receipt, parts, pace_ms, proved=proved)
        case Declined(reason) if claim.doubts != CLEAR:
            why = f"an earlier attempt may have been posted; a later one was declined: {reason}"
            return _kept(claim, ReplyState.UNCERTAIN, why)
        case Declined(reason):
            return _kept(claim, ReplyState.FAILED, reason)
        case Doubtful(reason):
            return _doubted(claim, reason, on_doubt, policy, chance)
        case NotSent(reason, retry_after_ms):
            given_up = ReplyState.FAILED if claim.doubts == CLEAR else ReplyState.UNCERTAIN
            return _again(claim, reason, retry_after_ms, policy, chance, given_up=given_up)


def _again(
    claim: ReplyClaim, reason: str, wait_ms: int, policy: SendPolicy, chance: float, *, given_up: ReplyState
) -> ReplySettlement:
    if claim.attempt >= policy.attempts_max and claim.waited_ms >= policy.give_up_ms:
        return _kept(claim, given_up, f"given up: {reason}")
    delay_ms = (
        max(policy.retry.delay_ms(1, chance), wait_ms) if wait_ms else policy.retry.delay_ms(claim.attempt, chance)
    )
    return _kept(claim, ReplyState.PENDING, reason, delay_ms)


def _kept(claim: ReplyClaim, state: ReplyState, reason: str, delay_ms: int = 0) -> ReplySettlement:
    """The settlement if no piece was sent: part and doubts stay the same."""
    return ReplySettlement(state=state, part=claim.part, doubts=claim.doubts, delay_ms=delay_ms, reason=short(reason))


def _sent(claim: ReplyClaim, receipt: str, parts: int, pace_ms: int, *, proved: bool) -> ReplySettlement:
    """The settlement after a sent piece. During the pause before the next piece the reply is pending, so a crash leaves
    no doubt."""
    doubts = CLEAR if proved else min(claim.doubts * BEYOND_DOUBT, BEYOND_DOUBT)
    state = ReplyState.PENDING if pace_ms else ReplyState.ATTEMPTING
    if claim.part + 1 >= parts:
        state = ReplyState.DELIVERED if doubts == CLEAR else ReplyState.UNCERTAIN
    return ReplySettlement(
        state=state,
        part=claim.part + 1,
        doubts=doubts,
        delay_ms=pace_ms if state is ReplyState.PENDING else 0,
        receipt=short(receipt),
        reason=None if doubts == CLEAR else POSSIBLE_DUPLICATE,
    )


def _doubted(claim: ReplyClaim, reason: str, on_doubt: OnDoubt, policy: SendPolicy, chance: float) -> ReplySettlement:
    if claim.doubts == CLEAR and on_doubt is OnDoubt.RESEND:
        delay_ms = policy.retry.delay_ms(1, chance)  # it is resent once, however often it was rejected before
        return ReplySettlement(
            state=ReplyState.PENDING, part=claim.part, doubts=OPEN_DOUBT, delay_ms=delay_ms, reason=short(reason)
        )
    doubts = OPEN_DOUBT if claim.doubts == CLEAR else BEYOND_DOUBT
    why = short(f"{NOBODY_KNOWS}: {reason}")
    return ReplySettlement(state=ReplyState.UNCERTAIN, part=claim.part, doubts=doubts, reason=why)


def _edited(
    claim: ReplyClaim,
    outcome: Sent | Declined | Doubtful,
    *,
    parts: int,
    on_doubt: OnDoubt,
    pace_ms: int,
    policy: SendPolicy,
    chance: float,
) -> ReplySettlement:
    """The settlement after an edit. A draft that cannot be edited is recorded as gone before the piece is sent as a new
    message."""
    match outcome:
        case Sent(receipt):
            return replace(_sent(claim, receipt, parts, pace_ms, proved=True), draft=DraftFate.REPLACED)
        case Declined(reason) if claim.doubts != CLEAR and on_doubt is OnDoubt.HOLD:
            why = f"{NOBODY_KNOWS}: its draft cannot be edited any more: {reason}"
            return replace(_kept(claim, ReplyState.UNCERTAIN, why), draft=DraftFate.GONE)
        case Declined():
            doubts = CLEAR if claim.doubts == CLEAR else BEYOND_DOUBT
            return replace(
                _kept(claim, ReplyState.ATTEMPTING, "its draft is gone"), draft=DraftFate.GONE, doubts=doubts
            )
        case Doubtful(reason) if claim.attempt >= policy.doubtful_edits_max:
            why = f"{NOBODY_KNOWS}: {reason}"
            return replace(_kept(claim, ReplyState.UNCERTAIN, why), doubts=max(claim.doubts, OPEN_DOUBT))
        case Doubtful(reason):
            delay_ms = policy.retry.delay_ms(claim.attempt, chance)
            again = _kept(claim, ReplyState.PENDING, reason, delay_ms)
            return replace(again, doubts=max(claim.doubts, OPEN_DOUBT))


def untried(claim: ReplyClaim) -> ReplySettlement:
    """The settlement of a claim that is too old to send, as after a suspended process: the reply is pending again."""
    return ReplySettlement(state=ReplyState.PENDING, part=claim.part, doubts=claim.doubts)


def is_possible_duplicate(state: str, doubts: int) -> bool:
    """Whether a piece of the reply may have been posted twice."""
    return state == ReplyState.UNCERTAIN.value and doubts >= BEYOND_DOUBT


def chat_of(address: str) -> str:
    """The chat of an address, without thread and user: platforms limit rates by chat."""
    return ":".join(address.split(":")[:CHAT_PARTS])


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedReply:
    """One row of the ledger, without its text."""

    n: int
    id: str
    agent: str
    channel: str
    address: str
    message: str
    state: str
    attempt: int
    parts_sent: int
    doubts: int
    at: Instant
    due_at: Instant | None
    receipt: str | None
    reason: str | None
    draft: str | None = None  # the fate of its draft, if there was one (`DraftFate`)
    decided_by: str | None = None  # the person who gave it up, or who said that it arrived

    @property
    def possible_duplicate(self) -> bool:
        return is_possible_duplicate(self.state, self.doubts)
