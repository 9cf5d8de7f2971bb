"""The import: every session of a home becomes a session of Holdfast, page by page, and is read back before it counts.

Rule 1: sessions are imported one after another, parents first. An import that was killed continues with the turn after
        the last one that is stored; one that is repeated finds every session complete and changes nothing.
Rule 2: a session is complete when its entries were read back and have the digest that Hermes' rows give. Only then it
        gets its title and its chat.
Rule 3: a provider that has a turn is not sent it again; the evidence is what the provider itself lists.
Rule 4: a session that goes on in Holdfast is never appended to; what Hermes added to it since is reported.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from holdfast.hermes.importing.compaction import RowFate, RowFates, RowMark, judge_rows, mark_of
from holdfast.hermes.importing.evidence import DeliveryEvidence, EvidenceOrigin
from holdfast.hermes.importing.home_reader import HermesReader
from holdfast.hermes.importing.import_sql import ImportedSession, ImportEnding, ImportRun
from holdfast.hermes.importing.routing import HermesLineage, HermesSession, SessionPlace
from holdfast.hermes.importing.target import NOTHING_STORED, ImportTarget, StoredSession
from holdfast.hermes.importing.turns import ImportedTurn, JournalDigest, TurnMaker
from holdfast.hermes.kept_reader import PREFIX, AskedSession, place_of_key
from holdfast.kernel.ids import AgentName, Instant, MailboxId, OperationId, SessionId
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.sessions.session import Purpose

PAGE_ENTRIES = 500
WRITTEN = frozenset({"imported", "resumed", "extended"})
LEFT_ALONE = frozenset({"goes on here", "differs"})


class ImportState(msgspec.Struct, frozen=True):
    """What became of one session of Hermes."""

    hermes: str
    session: str
    state: str  # imported, resumed, extended, there already, would be imported, goes on here, differs
    title: str
    rows: int
    turns: int
    entries: int
    kept: int
    copies: int
    undone: int
    records: int
    digest: str
    chat: str = ""
    goes_on: bool = False  # whether its chat continues with it


@dataclass(slots=True)
class ImportReport:
    """The result of an import."""

    schema: int | None
    rows: int
    orphan_rows: int
    unfinished_rows: int  # of continuations that a stopped Hermes left; the sessions that they continue have them
    scopes_left_out: tuple[str, ...]
    skipped: list[str]
    sessions: list[ImportState] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)  # the digest of each session as it is imported
    empty: int = 0
    offered: int = 0  # turns that providers may get
    held: Mapping[str, int] = field(default_factory=dict)  # of these, the turns that a provider has already
    uncertain: Mapping[str, int] = field(default_factory=dict)  # delivered, though a chat has the same words
    has_members: bool = False  # whether members of a group have sessions of their own

    @property
    def digest(self) -> str:
        """SHA-256 over the digests of all sessions, independent of their order."""
        return _digest_of({one.session: one.digest for one in self.sessions})

    @property
    def fingerprint(self) -> str:
        """The digest of the history that is imported, without what Hermes added to sessions that go on here."""
        return _digest_of(self.stored)

    def total(self, name: str) -> int:
        return sum(getattr(one, name) for one in self.sessions)

    def count(self, state: str) -> int:
        return sum(one.state == state for one in self.sessions)


def _digest_of(digests: Mapping[str, str]) -> str:
    lines = sorted(f"{session} {digest}\n" for session, digest in digests.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class HermesImport:
    """One import. Without a target it only reads and reports."""

    def __init__(
        self,
        reader: HermesReader,
        agent: AgentName,
        *,
        target: ImportTarget | None = None,
        policies: Sequence[DeliveryPolicy] = (),
        progressed: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        self._reader = reader
        self.agent = agent
        self._target = target
        self._policies = tuple(policies)
        self._progressed = progressed
        self._evidence = DeliveryEvidence()
        routes, left_out = reader.routes()
        self.lineage = HermesLineage(reader.sessions(), routes, agent, unfinished=reader.unfinished_sessions())
        self.report = ImportReport(
            schema=reader.schema,
            rows=reader.count_rows(),
            orphan_rows=reader.orphan_rows(),
            unfinished_rows=reader.count_rows_of(self.lineage.unfinished),
            scopes_left_out=tuple(left_out),
            skipped=reader.skipped,
        )

    async def run(self, evidence: DeliveryEvidence | None = None) -> ImportReport:
        """Import every session, then record the run. Without evidence every turn is delivered."""
        self._evidence = evidence or DeliveryEvidence()
        self.report.empty = len(self.lineage.unfinished)
        self.report.has_members = any(
            one.origin is not None and one.origin.is_per_user for one in self.lineage.sessions.values()
        )
        for session in self.lineage.in_order():
            judged = self._judge(session)
            if any(fate is not RowFate.RECORD for fate in judged.fates):
                self.report.sessions.append(await self._session(session, judged))
            else:
                self.report.empty += 1
        self.report.held, self.report.uncertain = self._evidence.found, self._evidence.uncertain
        if self._target is not None and self.report.sessions:
            await self._target.finish(self._finished_run())
        return self.report

    def _finished_run(self) -> ImportRun:
        return ImportRun(
            agent=self.agent,
            fingerprint=self.report.fingerprint,
            sessions=len(self.report.sessions),
            messages=self.report.total("kept"),
            new=sum(one.state in WRITTEN for one in self.report.sessions),
        )

    # --- one session

    def _shared(self, session: HermesSession) -> ImportedSession:
        place, parent = self.lineage.where(session), self.lineage.parent_of(session)
        return ImportedSession(
            id=SessionId(f"{PREFIX}{session.id}"),
            agent=self.agent,
            principal=place.principal,
            place=place.place,
            opened_at=Instant(session.started_ms),
            purpose=session.purpose,
            parent=SessionId(f"{PREFIX}{parent.id}") if parent is not None else None,
            title=session.title or None,
            directory=session.directory,
            policies=self._policies,
        )

    def asked_sessions(self) -> list[AskedSession]:
        """The sessions that providers are asked for."""
        asked = []
        for session in self.lineage.in_order():
            if session.purpose is Purpose.CONVERSATION:
                named = tuple(self._shared(one).inputs for one in (session, self.lineage.root_of(session)))
                asked.append(AskedSession(id=session.id, inputs=named))
        return asked

    async def _session(self, session: HermesSession, judged: RowFates) -> ImportState:
        place, shared = self.lineage.where(session), self._shared(session)
        maker = TurnMaker(principal=place.principal, model=session.model)
        stored = NOTHING_STORED if self._target is None else await self._target.stored(shared.id)
        digest, state = await self._write(session, shared, judged, maker, stored)
        self.report.stored[shared.id] = stored.digest if state in LEFT_ALONE else digest
        goes_on = place.goes_on and self._target is None
        if state in WRITTEN and self._target is not None:
            await self._target.verify(shared.id, entries=maker.last_seq, digest=digest)
            await self._target.summarise(shared.id, maker.summaries)
            goes_on = await self._target.end(self._ending(session, place, shared, maker, digest))
        return ImportState(
            hermes=session.id,
            session=shared.id,
            state=state,
            title=session.title,
            rows=len(judged.fates),
            turns=maker.turns,
            entries=maker.last_seq,
            kept=maker.rows - maker.counts["copy"] - maker.counts["record"],
            copies=maker.counts["copy"],
            undone=maker.undone_rows,
            records=maker.counts["record"],
            digest=digest,
            chat=str(place.chat or ""),
            goes_on=goes_on,
        )

    def _judge(self, session: HermesSession) -> RowFates:
        parent, child = self.lineage.parent_of(session), self.lineage.child_of(session)
        inherited = self._marks(parent) if parent is not None else []
        continued = frozenset(mark.identity for mark in self._marks(child)) if child is not None else None
        return judge_rows(self._marks(session), inherited, child=continued)

    def _marks(self, session: HermesSession) -> list[RowMark]:
        return [mark_of(row) for row in self._reader.messages(session.id)]

    async def _write(
        self,
        session: HermesSession,
        shared: ImportedSession,
        judged: RowFates,
        maker: TurnMaker,
        stored: StoredSession,
    ) -> tuple[str, str]:
        """Write the turns that are not stored yet; the digest of all of them, and the state of the session."""
        digest, same, told, page = JournalDigest(), True, 0, list[ImportedTurn]()
        origin = self._origin(session)
        for turn in maker.make(self._reader.messages(session.id), judged):
            digest.add_turn(turn)
            if turn.n == stored.complete:
                same = digest.hex() == stored.digest
            held_by = self._held_by(shared, origin, turn)
            if turn.n > stored.turns and same and not stored.went_on:
                page.append(replace(turn, held_by=held_by))
            if sum(len(one.entries) for one in page) >= PAGE_ENTRIES:
                page = await self._flush(shared, page)
                self._progressed(maker.rows - told)
                told = maker.rows
        await self._flush(shared, page)
        self._progressed(maker.rows - told)
        return digest.hex(), self._state(stored, maker, same=same)

    def _origin(self, session: HermesSession) -> EvidenceOrigin:
        origin = EvidenceOrigin(session.id, place_of_key(self.lineage.key_of(session), self.agent))
        if self._evidence.must_locate(origin):
            said = [row.text for row in self._reader.messages(session.id) if row.role == "user"]
            self._evidence.locate(session.id, said)
        return origin

    def _held_by(self, shared: ImportedSession, origin: EvidenceOrigin, turn: ImportedTurn) -> frozenset[str]:
        """The providers that have the turn; asked for stored turns too, because each stored message proves one turn."""
        if shared.purpose is not Purpose.CONVERSATION or not turn.delivered or turn.undone:
            return frozenset()
        self.report.offered += 1
        return self._evidence.holders(origin, turn)

    def _state(self, stored: StoredSession, maker: TurnMaker, *, same: bool) -> str:
        if self._target is None:
            return "would be imported"
        if stored.complete is None:
            return "resumed" if stored.turns else "imported"
        if not same or maker.turns < stored.complete:
            return "differs"
        if maker.turns == stored.complete:
            return "there already"
        return "goes on here" if stored.went_on else "extended"

    async def _flush(self, shared: ImportedSession, page: list[ImportedTurn]) -> list[ImportedTurn]:
        if self._target is not None:
            await self._target.write(shared, page)
        return []

    def _ending(
        self, session: HermesSession, place: SessionPlace, shared: ImportedSession, maker: TurnMaker, digest: str
    ) -> ImportEnding:
        target = self._target
        return ImportEnding(
            session=shared.id,
            agent=shared.agent,
            operation=OperationId(f"{shared.id}:import"),
            title=session.title or None,
            reason=f"hermes:{session.end_reason}" if session.end_reason else "hermes",
            closed_at=Instant(session.ended_ms or maker.last_at),
            chat=place.chat,
            goes_on=place.goes_on,
            new_mailbox=target.new_mailbox() if target is not None else MailboxId(""),
            detail={"digest": digest, "turns": maker.turns, "entries": maker.last_seq, "rows": maker.rows},
        )
