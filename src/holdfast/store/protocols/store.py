"""The store: about twenty verbs, one transaction each. The engine is the database (D32).

Every write of a worker carries its claim; the fence is compared inside the transaction, under a row lock held to
commit, so a worker that slept through its lease changes nothing (`ClaimLost`). Expected outcomes are values. Every
verb carries caller-made ids and may be repeated after an unknown commit: it returns its first result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.api.auth.access_token import AccessToken
from holdfast.inbox.mailbox import Claim, Mail
from holdfast.inbox.message import AcceptOutcome, Arrival, Limits
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    DeliveryId,
    Instant,
    MessageId,
    NodeId,
    OperationId,
    SessionId,
    TokenId,
)
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.memory.forget import ForgetRequest, Forgetting
from holdfast.memory.lane import LaneClaim, LaneKey, Settlement
from holdfast.memory.notes import MemoryBatch, MemoryOutcome, MemoryUndo
from holdfast.sessions.command_rights import NotAllowed
from holdfast.sessions.compression import Operation, Summary, SummaryDraft
from holdfast.sessions.extraction import Excerpt, Notes, Proposal
from holdfast.sessions.finalisation import Ending, Expired, Finalisation, FinishEvent, NotEnded
from holdfast.sessions.session import CommandDone, CommandRun
from holdfast.store.protocols.access_store import AccessStore
from holdfast.store.protocols.action_store import ActionStore
from holdfast.store.protocols.draft_store import DraftStore
from holdfast.store.protocols.login_store import LoginStore
from holdfast.store.protocols.reply_store import ReplyStore
from holdfast.store.protocols.spend import SpendLedger
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.context import Context
from holdfast.turns.turn import Recorded, Step, Turn, TurnCommit, TurnOpening, TurnRecord


@dataclass(frozen=True, slots=True)
class Busy:
    """An operation of the kind is open for the session."""

    operation: OperationId


@dataclass(frozen=True, slots=True)
class Committed:
    """What is left in the mailbox after a commit."""

    waiting: int


@dataclass(frozen=True, slots=True)
class Reaped:
    nodes: int
    claims: int
    operations: int


class Store(ReplyStore, DraftStore, AccessStore, ActionStore, LoginStore, SpendLedger, Protocol):
    # --- nodes
    async def register_node(self, node: NodeId, host: str, *, sole: bool) -> None:
        """Announce a process that will claim. `sole` voids every earlier claim: the owner lock is held."""
        ...

    async def renew_node(self, node: NodeId) -> None:
        """Prove life. Raises `NodeLost` when the node was reaped: its claims are void."""
        ...

    async def retire_node(self, node: NodeId) -> None:
        """Leave: give every claim back at once."""
        ...

    async def reap_nodes(self, *, lease_ms: int) -> Reaped:
        """Void the claims and operations of nodes that have not proved life within the lease."""
        ...

    # --- accepting
    async def accept(self, arrival: Arrival, limits: Limits) -> AcceptOutcome:
        """Deduplicate, append to the mailbox; signals take effect at once. Durable when it returns."""
        ...

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        """A conversation was read up to a position, where nothing was accepted that would say so."""
        ...

    # --- claiming
    async def claim_mailbox(self, node: NodeId, *, name: str = "") -> Claim | None:
        """Take the free mailbox that has been ready longest; its fence grows by one.

        `name` is the caller's for this claim: asked again under it, after an answer that was lost, the store gives
        the same claim. Without a name such a claim stays taken until its node ends.
        """
        ...

    async def claim_mailboxes(self, node: NodeId, *, name: str = "", limit: int) -> tuple[Claim, ...]:
        """The same for up to `limit` mailboxes at once, as many as are free."""
        ...

    async def read_mail(self, claim: Claim, *, limit: int) -> Mail: ...

    async def release_claim(self, claim: Claim, *, retry_in_ms: int = 0) -> None:
        """Give the mailbox back; it stays ready while it has mail. Void claims are passed over."""
        ...

    # --- turns
    async def open_turn(self, claim: Claim, opening: TurnOpening) -> Turn | NotAllowed:
        """Open a turn (and the session, when the mailbox has none) and journal its messages.

        `NotAllowed` for a retry that its sender may not ask for: nothing is changed.
        """
        ...

    async def resume_turn(self, claim: Claim, turn: Turn) -> Turn:
        """Take over an open turn: attempt + 1, durably, before anything is done."""
        ...

    async def append_step(self, claim: Claim, turn: Turn, step: Step) -> Turn: ...

    async def commit_turn(self, claim: Claim, turn: Turn, commit: TurnCommit) -> Committed:
        """Entries, acknowledgements, replies and cursor work become durable together or not at all."""
        ...

    async def decide_approval(
        self, approval: ApprovalId, decision: Decision, *, by: str, reason: str = "", digest: str = ""
    ) -> ApprovalView:
        """An operator's word on a tool call that waits; what was decided before, or came too late, stays.

        Raises `ApprovalNotFound`, `ApprovalChanged` for a digest of another call, and `ApprovalDigestNeeded` for none
        where the question left out a part of the arguments.
        """
        ...

    async def observe(
        self, claim: Claim, session: SessionId, messages: Sequence[MessageId], *, held: str | None = None
    ) -> Committed:
        """Journal messages without a turn: unaddressed talk, or mail held by the loop guard."""
        ...

    async def record_turn(self, record: TurnRecord) -> Recorded:
        """A whole turn from a writer without a mailbox, idempotent by its key."""
        ...

    # --- lanes
    async def claim_lanes(
        self,
        node: NodeId,
        key: LaneKey,
        *,
        name: str = "",
        lanes: int = 1,
        units: int = 1,
        renderer: str = "",
        passing: bool = False,
    ) -> tuple[LaneClaim, ...]:
        """Take free lanes of one provider whose heads are due, each with its first deliveries, rendered.

        Asked again under the same name, after an answer that was lost, the store gives the same lanes. With `passing`
        a note that waits for its quiet period is passed by notes that do not depend on it.
        """
        ...

    async def settle_lanes(self, settled: Sequence[tuple[LaneClaim, Sequence[Settlement]]]) -> None:
        """Make the outcomes of one call durable and give the lanes back. Raises `LaneLost`."""
        ...

    async def hurry_lanes(self, key: LaneKey, *, limit: int) -> int:
        """Make lanes of a provider that is back due now, however long they were to wait; how many."""
        ...

    async def schedule_overdue(self, *, limit: int) -> int:
        """Make due what has waited longer than its provider may wait; how many cursors moved."""
        ...

    async def next_overdue(self) -> Instant | None:
        """When the next pending turns become due by waiting; None while none wait."""
        ...

    async def replay_delivery(self, delivery: DeliveryId) -> str:
        """Put a parked delivery back on its lane, late; its state now. Raises `DeliveryNotFound`, `InvalidInput`."""
        ...

    async def backfill(
        self, agent: AgentName, policy: DeliveryPolicy, *, after: str = "", limit: int
    ) -> tuple[str, int, bool]:
        """Schedule the turns of sessions that the provider has no cursor in, a page of sessions at a time.

        The last session looked at, how many units were made, and whether there may be more.
        """
        ...

    async def next_due(self, keys: Sequence[LaneKey]) -> tuple[Instant | None, ...]:
        """When each provider's next free lane is due."""
        ...

    async def lane_keys(self, *, ever: bool = False) -> tuple[LaneKey, ...]:
        """Whose lanes have work, or with `ever` had some, configured or not."""
        ...

    # --- sessions
    async def run_command(self, claim: Claim, run: CommandRun) -> CommandDone:
        """Apply one conversation command and acknowledge it, with its reply, in one transaction."""
        ...

    async def read_context(self, session: SessionId) -> Context:
        """Newest valid summary and everything after it, steps of an open turn included."""
        ...

    # --- operations and summaries
    async def begin_operation(
        self, operation: OperationId, kind: str, session: SessionId, node: NodeId
    ) -> Operation | Busy: ...

    async def open_operation(self, session: SessionId, kind: str) -> OperationId | None:
        """The operation of the kind that is open and whose owner lives, if any."""
        ...

    async def commit_summary(self, operation: Operation, draft: SummaryDraft) -> Summary:
        """Add a summary and end its operation. Raises `SummaryStale` when its base moved meanwhile."""
        ...

    async def end_operation(self, operation: Operation, outcome: str, detail: dict[str, object]) -> None: ...

    # --- the agent's memory
    async def apply_memory(self, batch: MemoryBatch) -> MemoryOutcome:
        """The whole batch or nothing of it, and its mirroring; a repeated origin gets the first result."""
        ...

    async def undo_memory(self, undo: MemoryUndo) -> MemoryOutcome:
        """Reverse one operation, once."""
        ...

    # --- forgetting
    async def forget(self, request: ForgetRequest) -> Forgetting:
        """Blank a person or a session, cancel what has not left, schedule its erasure wherever it was sent.

        Durable when it returns, and pending until every receipt is there; a repeated id gets the present state.
        Raises `SessionNotFound` and `IdempotencyConflict`.
        """
        ...

    async def sweep_forgotten(self, *, quiet_ms: int) -> int:
        """Blank what recall copied before the providers had erased it; how many requests were swept.

        `quiet_ms` is how long after the last receipt a recall that was under way may still come in.
        """
        ...

    async def scrub_forgotten(self) -> int:
        """Leave no byte of what was forgotten in the store's files; for how many requests. Then it is on record.

        Raises `StoreUnavailable` while that cannot be done; it may be repeated at any time.
        """
        ...

    # --- ends of epochs
    async def open_agents(self) -> tuple[Instant, tuple[AgentName, ...]]:
        """The store's time, and the agents that have open sessions."""
        ...

    async def expired_sessions(self, agent: AgentName, *, before: Instant, limit: int) -> Sequence[Expired]:
        """Open sessions that nobody uses and that were last active at or before an instant, oldest first."""
        ...

    async def begin_finalisation(self, ending: Ending) -> Finalisation | NotEnded:
        """Freeze the range of an expired epoch and make its tail due. `NotEnded` while anybody may still use it."""
        ...

    async def claim_finalisation(self, node: NodeId, *, name: str = "") -> Finalisation | None:
        """Take the ended epoch that is due longest; its fence and its attempts grow by one.

        Asked again under the same name, the store gives the same one as it stands.
        """
        ...

    async def read_excerpt(self, held: Finalisation) -> Excerpt:
        """What was said in the frozen range and not taken back since."""
        ...

    async def record_finalisation(
        self,
        held: Finalisation,
        event: FinishEvent,
        *,
        answer: bytes | None = None,
        model: str | None = None,
        reason: str = "",
        retry_in_ms: int = 0,
    ) -> Finalisation:
        """Make one step durable, with its result. Ending it closes the session, unless mail came first: then the
        session goes on in its next epoch. Raises `ClaimLost`."""
        ...

    async def apply_finalisation(self, held: Finalisation, proposals: Sequence[Proposal], notes: Notes) -> Finalisation:
        """Write what fits to memory and record the step, together; the rest stays in the result as unfit."""
        ...

    async def retry_finalisation(self, session: SessionId, epoch: int) -> Finalisation:
        """Take a failed one up again, from its stored answer if there is one. Others are left as they are.

        Raises `FinalisationNotFound`.
        """
        ...

    # --- tokens
    async def add_token(self, token: AccessToken, hash: bytes) -> AccessToken:
        """Keep a token by its hash. The same id again gets what was kept."""
        ...

    async def revoke_token(self, id: TokenId) -> AccessToken:
        """End it, now and for good; a repeat changes nothing. Raises `TokenNotFound`."""
        ...

    # --- upkeep
    async def prove_write(self) -> Instant:
        """A real, durable write; the store's time at which it happened."""
        ...

    async def prune(self, *, older_than_ms: int, limit: int) -> int:
        """Replace old, finished inbound rows by keyed tombstones; how many."""
        ...

    def wal_bytes(self) -> int:
        """Size of the log beside the database (D28); 0 where the engine shows none."""
        ...

    async def changed_elsewhere(self) -> bool:
        """Whether another process wrote since this was last asked (D29)."""
        ...

    async def close(self) -> None: ...
