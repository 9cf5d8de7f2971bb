"""Finalisations: lists the ends of epochs, and retries an extraction that failed."""

from collections.abc import Sequence

from holdfast.audit.actor import acting
from holdfast.kernel import log
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import SessionId
from holdfast.kernel.notifier import Topic
from holdfast.sessions.finalisation import Finalisation, parse_origin
from holdfast.sessions.finalisation_sql import list_finalisations, retry_finalisation
from holdfast.store.ports import Ports


class Finalisations:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def list(
        self,
        *,
        session: SessionId | None = None,
        agent: str | None = None,
        state: str | None = None,
        limit: int = 100,
    ) -> Sequence[Finalisation]:
        return await self._ports.db.read(list_finalisations(session=session, agent=agent, state=state, limit=limit))

    async def retry(self, id: str) -> Finalisation:
        session, epoch = parse_origin(id)
        found = await self._ports.db.write(retry_finalisation(session, epoch, by=acting()))
        if found.ended:
            raise InvalidInput(f"{found.origin} is {found.step.value}; only a failed one can be taken up again")
        log.info("finish.repeated", session=session, epoch=epoch, step=found.step.value)
        self._ports.notifier.wake(Topic.FINISH)
        return found
