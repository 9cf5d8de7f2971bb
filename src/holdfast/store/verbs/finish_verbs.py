"""The store's verbs about the ends of epochs."""

from collections.abc import Sequence

from holdfast.kernel.ids import AgentName, Instant, NodeId, SessionId
from holdfast.sessions import extraction_sql, finalisation_sql
from holdfast.sessions.extraction import Excerpt, Notes, Proposal
from holdfast.sessions.finalisation import Ending, Expired, Finalisation, FinishEvent, NotEnded
from holdfast.store.verbs.action_verbs import ActionVerbs


class FinishVerbs(ActionVerbs):
    """Implements what the ports `Store` and `Reader` say about finalisations."""

    async def open_agents(self) -> tuple[Instant, tuple[AgentName, ...]]:
        return await self._db.read("open_agents", finalisation_sql.list_open_agents)

    async def expired_sessions(self, agent: AgentName, *, before: Instant, limit: int) -> Sequence[Expired]:
        return await self._db.read(
            "expired_sessions", lambda: finalisation_sql.list_expired_sessions(agent, before, limit)
        )

    async def begin_finalisation(self, ending: Ending) -> Finalisation | NotEnded:
        return await self._db.write("begin_finalisation", lambda: finalisation_sql.begin_finalisation(ending))

    async def claim_finalisation(self, node: NodeId, *, name: str = "") -> Finalisation | None:
        return await self._db.write(
            "claim_finalisation", lambda: finalisation_sql.claim_finalisation(node, name), name=name
        )

    async def read_excerpt(self, held: Finalisation) -> Excerpt:
        return await self._db.read("read_excerpt", lambda: extraction_sql.read_excerpt(held))

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
        recorded = finalisation_sql.Recorded(event, answer, model, reason, retry_in_ms)
        return await self._db.write("record_finalisation", lambda: finalisation_sql.record_finalisation(held, recorded))

    async def apply_finalisation(self, held: Finalisation, proposals: Sequence[Proposal], notes: Notes) -> Finalisation:
        return await self._db.write(
            "apply_finalisation", lambda: extraction_sql.apply_finalisation(held, proposals, notes)
        )

    async def retry_finalisation(self, session: SessionId, epoch: int) -> Finalisation:
        return await self._act("retry_finalisation", lambda by: finalisation_sql.retry_finalisation(session, epoch, by))

    async def finalisations(
        self,
        *,
        session: SessionId | None = None,
        agent: str | None = None,
        state: str | None = None,
        limit: int = 100,
    ) -> Sequence[Finalisation]:
        return await self._db.read(
            "finalisations", lambda: finalisation_sql.list_finalisations(session, limit, agent=agent, state=state)
        )
