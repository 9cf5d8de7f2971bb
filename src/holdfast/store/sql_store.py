"""The store over any engine: each verb is one script, run as one transaction by the engine's database.

What this class adds to the scripts is RAM that can vanish: contexts read before, brought up to date on use.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from holdfast.api.auth import access_token_sql
from holdfast.api.auth.access_token import AccessToken
from holdfast.inbox import accept_sql, attachment_sql, mail_sql
from holdfast.inbox.address import parse
from holdfast.inbox.mailbox import Claim, Mail
from holdfast.inbox.message import AcceptOutcome, Arrival, Limits
from holdfast.kernel.ids import (
    AgentName,
    ApprovalId,
    DeliveryId,
    ForgetId,
    Instant,
    MessageId,
    NodeId,
    OperationId,
    SessionId,
    TokenId,
)
from holdfast.memory import backfill_sql, cursor_sql, forget_sql, notes_sql, settle_sql
from holdfast.memory import lane_sql as lanes_
from holdfast.memory.delivery import DeliveryPolicy, Parcel
from holdfast.memory.forget import ForgetRequest, Forgetting
from holdfast.memory.lane import LaneClaim, LaneKey, Settlement
from holdfast.memory.notes import Memory, MemoryBatch, MemoryOperation, MemoryOutcome, MemoryUndo
from holdfast.memory.visibility import Audience, ShownNotes
from holdfast.runtime import gauges_sql
from holdfast.sessions import command_sql, conversation_sql, history_sql, summary_sql
from holdfast.sessions.command_rights import NotAllowed
from holdfast.sessions.compression import Operation, Summary, SummaryDraft
from holdfast.sessions.compression_audit import SessionFacts
from holdfast.sessions.session import CommandDone, CommandRun, Session
from holdfast.store import node_sql, upkeep_sql
from holdfast.store.damage import WatchedDatabase
from holdfast.store.database import Database
from holdfast.store.protocols.reader import (
    ChatLine,
    DeliveryView,
    EnclosureView,
    EntryView,
    Gauges,
    MailboxView,
    MessageTrace,
)
from holdfast.store.protocols.store import Busy, Committed, Reaped
from holdfast.store.verbs.access_verbs import AccessVerbs
from holdfast.store.verbs.finish_verbs import FinishVerbs
from holdfast.store.verbs.login_verbs import LoginVerbs
from holdfast.store.verbs.reply_verbs import ReplyVerbs
from holdfast.store.verbs.spend_verbs import SpendVerbs
from holdfast.turns import approval_sql, approval_view_sql, context_sql, record_sql, turn_sql
from holdfast.turns.approval import ApprovalView, Decision
from holdfast.turns.context import Context
from holdfast.turns.context_cache import ContextShelf
from holdfast.turns.turn import Recorded, Step, Turn, TurnCommit, TurnOpening, TurnRecord

CONTEXTS_KEPT = 1_024
SWEPT_MAX = 100  # requests in one transaction
ENTRIES_KEPT_MAX = 2_000  # a longer tail is read again rather than held


class SqlStore(ReplyVerbs, FinishVerbs, AccessVerbs, LoginVerbs, SpendVerbs):
    """Implements the ports `Store` and `Reader`."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self._db = self.pages = WatchedDatabase(database)
        self._secret = secret
        self._contexts = ContextShelf()

    @classmethod
    async def open(cls, database: Database, candidate_secret: bytes) -> Self:
        """Load the key of the tombstones; the candidate becomes it in a new store."""
        secret = await database.write("load_secret", lambda: upkeep_sql.load_secret("tombstone", candidate_secret))
        return cls(database, secret)

    # --- nodes

    async def register_node(self, node: NodeId, host: str, *, sole: bool) -> None:
        await self._db.write("register_node", lambda: node_sql.register_node(node, host, sole))

    async def renew_node(self, node: NodeId) -> None:
        await self._db.write("renew_node", lambda: node_sql.renew_node(node))

    async def retire_node(self, node: NodeId) -> None:
        await self._db.write("retire_node", lambda: node_sql.retire_node(node))

    async def reap_nodes(self, *, lease_ms: int) -> Reaped:
        return await self._db.write("reap_nodes", lambda: node_sql.reap_nodes(lease_ms))

    # --- accepting and claiming

    async def accept(self, arrival: Arrival, limits: Limits) -> AcceptOutcome:
        return await self._act("accept", lambda via: accept_sql.accept_message(arrival, limits, self._secret, via))

    async def note_read(self, account: str, conversation: str, position: int, event_id: str) -> None:
        await self._db.write(
            "note_read", lambda: attachment_sql.note_position(account, conversation, position, event_id)
        )

    async def unanswered(self, address: str, request: str) -> MessageId | None:
        return await self._db.read("unanswered", lambda: history_sql.find_unanswered(address, request))

    async def read_up_to(self, account: str) -> Mapping[str, tuple[int, str]]:
        return await self._db.read("read_up_to", lambda: attachment_sql.read_positions(account))

    async def took_in(self, account: str, conversation: str, event_id: str) -> bool:
        return await self._db.read(
            "took_in", lambda: accept_sql.was_accepted(account, conversation, event_id, self._secret)
        )

    async def enclosures(self, message: MessageId) -> Sequence[EnclosureView]:
        return await self._db.read("enclosures", lambda: attachment_sql.list_attachments(message))

    async def enclosure_of(self, hash: str, *, agent: str | None = None) -> EnclosureView | None:
        return await self._db.read("enclosure_of", lambda: attachment_sql.find_attachment(hash, agent))

    async def attachments_bytes(self, agent: AgentName) -> int:
        return await self._db.read("attachments_bytes", lambda: attachment_sql.count_attachment_bytes(agent))

    async def attachment(self, hash: str) -> bytes | None:
        return await self._db.read("attachment", lambda: attachment_sql.read_attachment(hash))

    async def claim_mailbox(self, node: NodeId, *, name: str = "") -> Claim | None:
        return await self._db.write("claim_mailbox", lambda: node_sql.claim_mailbox(node, name), name=name)

    async def claim_mailboxes(self, node: NodeId, *, name: str = "", limit: int) -> tuple[Claim, ...]:
        return await self._db.write("claim_mailboxes", lambda: node_sql.claim_mailboxes(node, name, limit), name=name)

    async def read_mail(self, claim: Claim, *, limit: int) -> Mail:
        return await self._db.read("read_mail", lambda: mail_sql.read_mail(claim, limit))

    async def release_claim(self, claim: Claim, *, retry_in_ms: int = 0) -> None:
        await self._db.write("release_claim", lambda: node_sql.release_claim(claim, retry_in_ms))

    # --- turns

    async def open_turn(self, claim: Claim, opening: TurnOpening) -> Turn | NotAllowed:
        return await self._db.write("open_turn", lambda: turn_sql.open_turn(claim, opening))

    async def resume_turn(self, claim: Claim, turn: Turn) -> Turn:
        return await self._db.write("resume_turn", lambda: turn_sql.resume_turn(claim, turn))

    async def append_step(self, claim: Claim, turn: Turn, step: Step) -> Turn:
        return await self._db.write("append_step", lambda: turn_sql.append_step(claim, turn, step))

    async def commit_turn(self, claim: Claim, turn: Turn, commit: TurnCommit) -> Committed:
        return await self._db.write("commit_turn", lambda: turn_sql.commit_turn(claim, turn, commit))

    async def observe(
        self, claim: Claim, session: SessionId, messages: Sequence[MessageId], *, held: str | None = None
    ) -> Committed:
        return await self._db.write("observe", lambda: turn_sql.observe_messages(claim, session, messages, held))

    async def record_turn(self, record_: TurnRecord) -> Recorded:
        return await self._db.write("record_turn", lambda: record_sql.record_turn(record_))

    async def decide_approval(
        self, approval: ApprovalId, decision: Decision, *, by: str, reason: str = "", digest: str = ""
    ) -> ApprovalView:
        return await self._act(
            "decide_approval",
            lambda who: approval_sql.decide_approval(approval, decision, by, reason, who, digest=digest),
        )

    async def approval(self, approval: ApprovalId) -> ApprovalView:
        return await self._db.read("approval", lambda: approval_view_sql.find_approval(approval))

    async def waits_at(self, address: str, approval: ApprovalId) -> bool:
        return await self._db.read("waits_at", lambda: approval_sql.is_waiting_at(address, approval))

    async def approvals(
        self, *, decided: bool = False, agent: str | None = None, limit: int = 100
    ) -> Sequence[ApprovalView]:
        return await self._db.read(
            "approvals", lambda: approval_view_sql.list_approvals(limit, decided=decided, agent=agent)
        )

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
        return await self._db.write(
            "claim_lanes",
            lambda: lanes_.claim_lanes(node, key, name, lanes=lanes, units=units, renderer=renderer, passing=passing),
            name=name,
        )

    async def settle_lanes(self, settled: Sequence[tuple[LaneClaim, Sequence[Settlement]]]) -> None:
        await self._db.write("settle_lanes", lambda: settle_sql.settle_lanes(settled))

    async def hurry_lanes(self, key: LaneKey, *, limit: int) -> int:
        return await self._db.write("hurry_lanes", lambda: lanes_.hurry_lanes(key, limit=limit))

    async def schedule_overdue(self, *, limit: int) -> int:
        return await self._db.write("schedule_overdue", lambda: cursor_sql.schedule_overdue(limit))

    async def next_overdue(self) -> Instant | None:
        return await self._db.read("next_overdue", cursor_sql.next_overdue)

    async def replay_delivery(self, delivery: DeliveryId) -> str:
        return await self._act("replay_delivery", lambda by: settle_sql.replay_delivery(delivery, by))

    async def backfill(
        self, agent: AgentName, policy: DeliveryPolicy, *, after: str = "", limit: int
    ) -> tuple[str, int, bool]:
        return await self._act("backfill", lambda by: backfill_sql.backfill_sessions(agent, policy, after, limit, by))

    async def next_due(self, keys: Sequence[LaneKey]) -> tuple[Instant | None, ...]:
        return await self._db.read("next_due", lambda: lanes_.next_due(keys))

    async def lane_keys(self, *, ever: bool = False) -> tuple[LaneKey, ...]:
        return await self._db.read("lane_keys", lambda: lanes_.list_lane_keys(ever=ever))

    # --- sessions, operations, summaries

    async def run_command(self, claim: Claim, run: CommandRun) -> CommandDone:
        return await self._db.write("run_command", lambda: command_sql.run_command(claim, run))

    async def read_context(self, session: SessionId) -> Context:
        known = self._contexts.get(session)
        context = await self._db.read("read_context", lambda: context_sql.read_context(session, known))
        self._contexts.keep(context)
        return context

    async def begin_operation(
        self, operation: OperationId, kind: str, session: SessionId, node: NodeId
    ) -> Operation | Busy:
        return await self._db.write(
            "begin_operation", lambda: summary_sql.begin_operation(operation, kind, session, node)
        )

    async def open_operation(self, session: SessionId, kind: str) -> OperationId | None:
        return await self._db.read("open_operation", lambda: summary_sql.find_open_operation(session, kind))

    async def commit_summary(self, operation: Operation, draft: SummaryDraft) -> Summary:
        return await self._db.write("commit_summary", lambda: summary_sql.commit_summary(operation, draft))

    async def end_operation(self, operation: Operation, outcome: str, detail: dict[str, object]) -> None:
        await self._db.write("end_operation", lambda: summary_sql.end_operation(operation, outcome, detail))

    # --- the agent's memory

    async def apply_memory(self, batch: MemoryBatch) -> MemoryOutcome:
        return await self._act("apply_memory", lambda by: notes_sql.apply_memory(batch, by))

    async def undo_memory(self, undo: MemoryUndo) -> MemoryOutcome:
        return await self._act("undo_memory", lambda by: notes_sql.undo_memory(undo, by))

    async def memory(self, agent: AgentName, subject: str = "") -> Memory:
        return await self._db.read("memory", lambda: notes_sql.read_memory(agent, subject))

    async def notes_shown(self, audience: Audience) -> ShownNotes:
        return await self._db.read("notes_shown", lambda: notes_sql.read_shown_notes(audience))

    async def memory_history(
        self, agent: AgentName, subject: str = "", *, after: int = 0, limit: int = 200
    ) -> Sequence[MemoryOperation]:
        return await self._db.read(
            "memory_history", lambda: notes_sql.list_memory_operations(agent, subject, after, limit)
        )

    async def memory_subjects(self, agent: AgentName, *, after: str | None = None, limit: int = 1_000) -> Sequence[str]:
        return await self._db.read("memory_subjects", lambda: notes_sql.list_memory_subjects(agent, after, limit))

    # --- forgetting

    async def forget(self, request: ForgetRequest) -> Forgetting:
        found = await self._act("forget", lambda by: forget_sql.begin_forgetting(request, by))
        self._contexts.clear()
        return found

    async def sweep_forgotten(self, *, quiet_ms: int) -> int:
        return await self._db.write("sweep_forgotten", lambda: forget_sql.sweep_forgotten(quiet_ms, SWEPT_MAX))

    async def scrub_forgotten(self) -> int:
        waiting = await self._db.read("scrub_forgotten", forget_sql.list_unscrubbed)
        if waiting:
            receipt = await self._db.scrub()
            await self._db.write("scrub_forgotten", lambda: forget_sql.mark_scrubbed(waiting, receipt))
        return len(waiting)

    async def forgetting(self, id: ForgetId) -> Forgetting:
        return await self._db.read("forgetting", lambda: forget_sql.read_forgetting(id))

    async def newest_forgetting(self) -> ForgetId | None:
        return await self._db.read("newest_forgetting", forget_sql.find_newest_forgetting)

    async def open_forgettings(self) -> Sequence[ForgetId]:
        return await self._db.read("open_forgettings", forget_sql.list_open_forgettings)

    # --- tokens

    async def add_token(self, token: AccessToken, hash: bytes) -> AccessToken:
        return await self._act("add_token", lambda by: access_token_sql.add_token(token, hash, by))

    async def revoke_token(self, id: TokenId) -> AccessToken:
        return await self._act("revoke_token", lambda by: access_token_sql.revoke_token(id, by))

    async def token(self, hash: bytes) -> AccessToken | None:
        return await self._db.read("token", lambda: access_token_sql.find_token(hash))

    async def token_of(self, id: TokenId) -> AccessToken:
        return await self._db.read("token_of", lambda: access_token_sql.get_token(id))

    async def tokens(self, *, after: str = "", limit: int = 1_000) -> Sequence[AccessToken]:
        return await self._db.read("tokens", lambda: access_token_sql.list_tokens(after, limit))

    # --- upkeep

    async def prove_write(self) -> Instant:
        return await self._db.write("prove_write", upkeep_sql.prove_write)

    async def prune(self, *, older_than_ms: int, limit: int) -> int:
        return await self._db.write("prune", lambda: upkeep_sql.prune_messages(older_than_ms, limit, self._secret))

    def wal_bytes(self) -> int:
        return self._db.wal_bytes()

    async def changed_elsewhere(self) -> bool:
        return await self._db.changed()

    async def close(self) -> None:
        await self._db.close()

    # --- questions

    async def message(self, message: MessageId) -> MessageTrace:
        return await self._db.read("message", lambda: history_sql.trace_message(message))

    async def mailbox(self, address: str) -> MailboxView | None:
        return await self._db.read("mailbox", lambda: history_sql.find_mailbox(address))

    async def conversation(self, address: str, *, before: int, limit: int) -> Sequence[ChatLine]:
        at = parse(address)  # over HTTP the account is the agent and the conversation the chat (D38)
        return await self._db.read(
            "conversation", lambda: conversation_sql.read_conversation(address, at.agent, at.chat, before, limit)
        )

    async def session(self, session: SessionId) -> Session:
        return await self._db.read("session", lambda: history_sql.read_session(session))

    async def sessions(
        self, *, agent: str | None = None, address: str | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Session]:
        return await self._db.read("sessions", lambda: history_sql.list_sessions(agent, address, after, limit))

    async def entries(self, session: SessionId, *, after: int = 0, limit: int = 200) -> Sequence[EntryView]:
        return await self._db.read("entries", lambda: history_sql.list_entries(session, after, limit))

    async def context(self, session: SessionId) -> Context:
        return await self.read_context(session)

    async def summaries(self, session: SessionId) -> Sequence[Summary]:
        return await self._db.read("summaries", lambda: history_sql.list_summaries(session))

    async def snapshot(self, session: SessionId, n: int) -> tuple[Summary, Sequence[EntryView]]:
        return await self._db.read("snapshot", lambda: history_sql.read_snapshot(session, n))

    async def operations(
        self, *, session: SessionId | None = None, after: str = "", limit: int = 1_000
    ) -> Sequence[Operation]:
        return await self._db.read("operations", lambda: history_sql.list_operations(session, after, limit))

    async def facts(self, *, after: str = "", limit: int = 100) -> Sequence[SessionFacts]:
        return await self._db.read("facts", lambda: history_sql.list_session_facts(after, limit))

    async def deliveries(
        self, *, provider: str | None = None, state: str | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[DeliveryView]:
        return await self._db.read("deliveries", lambda: history_sql.list_deliveries(provider, state, after, limit))

    async def delivered_parcels(
        self, key: LaneKey, *, after: int = 0, limit: int = 200
    ) -> Sequence[tuple[int, Parcel]]:
        return await self._db.read("delivered_parcels", lambda: backfill_sql.list_delivered_parcels(key, after, limit))

    async def gauges(self) -> Gauges:
        return await self._db.read("gauges", gauges_sql.read_gauges)

    async def next_ready(self) -> Instant | None:
        return await self._db.read("next_ready", history_sql.next_ready)
