"""The desk of finalisations: lists the ledger, and takes up again what somebody asks for."""

from collections.abc import Sequence

from holdfast.kernel import log
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import SessionId
from holdfast.kernel.notifier_port import Notifier, Topic
from holdfast.sessions.finalisation import Finalisation, parse_origin
from holdfast.store.protocols.reader import Reader
from holdfast.store.protocols.store import Store


class FinishDesk:
    """Implements `Finalisations`."""

    def __init__(self, store: Store, reader: Reader, notifier: Notifier) -> None:
        self._store = store
        self._reader = reader
        self._notifier = notifier

    async def list(
        self,
        *,
        session: SessionId | None = None,
        agent: str | None = None,
        state: str | None = None,
        limit: int = 100,
    ) -> Sequence[Finalisation]:
        return await self._reader.finalisations(session=session, agent=agent, state=state, limit=limit)

    async def retry(self, id: str) -> Finalisation:
        session, epoch = parse_origin(id)
        found = await self._store.retry_finalisation(session, epoch)
        if found.ended:
            raise InvalidInput(f"{found.origin} is {found.step.value}; only a failed one can be taken up again")
        log.info("finish.repeated", session=session, epoch=epoch, step=found.step.value)
        self._notifier.wake(Topic.FINISH)
        return found
