"""The desk of finalisations: what an operator may ask about ended epochs and their extraction, and do about them."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.kernel.ids import SessionId
from holdfast.sessions.finalisation import Finalisation


class Finalisations(Protocol):
    async def list(
        self,
        *,
        session: SessionId | None = None,
        agent: str | None = None,
        state: str | None = None,
        limit: int = 100,
    ) -> Sequence[Finalisation]:
        """Newest first."""
        ...

    async def retry(self, id: str) -> Finalisation:
        """Take a failed one up again; as it is afterwards. One that is under way stays so.

        Raises `FinalisationNotFound`, and `InvalidInput` for one that did not fail.
        """
        ...
