"""A loop: runs steps while there is work, rests otherwise, and survives any exception of a step."""

from abc import ABC, abstractmethod

from holdfast.kernel import log
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.tasks import Tasks

PAUSE_MS_MAX = 5_000  # bounds the delay after an outage of the store, however long it was


def log_failure(loop: str, error: Exception) -> None:
    """Log an exception: an error of ours by its code, any other one with its trace."""
    known = isinstance(error, HoldfastError)
    code = error.code if isinstance(error, HoldfastError) else type(error).__name__
    log.error("loop.failed", failure=None if known else error, loop=loop, code=code, why=str(error))


class Loop(ABC):
    name: str = "loop"

    def __init__(self, tasks: Tasks, entropy: Entropy) -> None:
        self._tasks = tasks
        self._entropy = entropy
        self._retry = RetryPolicy(delay_ms_max=PAUSE_MS_MAX)
        self.stopping = False

    @abstractmethod
    async def step(self) -> bool:
        """Do one unit of work; True if there was one."""

    @abstractmethod
    async def rest(self) -> None:
        """Wait until there may be work."""

    def cut_off(self) -> None:  # noqa: B027 - most loops start no tasks of their own
        """Cancel the loop's own tasks without waiting for them. Called once, when the loop stops."""

    async def run(self) -> None:
        """Run until stopped. Only this method catches every exception: it logs it once, backs off and continues."""
        failures = 0
        while not self.stopping:
            try:
                busy = await self.step()
                failures = 0
                if not busy and not self.stopping:
                    await self.rest()
            except Exception as error:  # noqa: BLE001
                failures += 1
                log_failure(self.name, error)
                await self._tasks.sleep(self._retry.delay_ms(failures, self._entropy.fraction()))
