"""Loops: a loop runs steps while there is work, rests otherwise, and survives any exception of a step.

`TaskSet` holds the running tasks of one component. `ClaimLoop` claims work in batches and serves each claim in its own
task. Its work belongs to groups: the lanes of one provider, the replies of one account, or one group for all.

Rule 1: a claim loop asks the store for a group only if work of it may be due: a wake-up says so, or the last claim did.
Rule 2: a request keeps its name until the store answers. If the answer is lost, the same request under the same name
        returns the claims that it took, so no claim stays taken without a task that serves it.
Rule 3: an exception of a task affects its claim only: it is logged, and the claim is given back.
Rule 4: a process that stops claims no more, lets running claims end within a grace period, and cancels the rest. The
        store gives their work to a later claim.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.notifier import Notifier, Topic, is_set_within
from holdfast.kernel.ports import Entropy, Task, Tasks
from holdfast.kernel.retry import RetryPolicy

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


class TaskSet:
    """The running tasks of one component: started, counted by group, awaited for a bounded time, and cancelled."""

    def __init__(self, tasks: Tasks, *, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._running: dict[int, Task] = {}
        self._groups: Counter[Hashable] = Counter()
        self._started = 0
        self._ended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def count(self, group: Hashable) -> int:
        return self._groups[group]

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str, group: Hashable = None) -> None:
        """Start a task. It creates the coroutine itself, so a task cancelled before it runs leaves none unawaited."""
        self._started += 1
        self._groups[group] += 1
        self._running[self._started] = self._tasks.start(self._run(self._started, work, group), name=name)

    async def _run(self, number: int, work: Callable[[], Coroutine[Any, Any, None]], group: Hashable) -> None:
        """Run a task and log its exception: it affects no other task."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001
            log_failure(self._name, error)
        finally:
            if self._running.pop(number, None) is not None:
                self._groups[group] -= 1
                if not self._groups[group]:
                    del self._groups[group]
                self._ended.set()

    async def fewer_than(self, limit: int, group: Hashable = None) -> None:
        """Wait until fewer tasks than `limit` run, of the group or, without one, of all."""
        while (len(self) if group is None else self.count(group)) >= limit:
            self._ended.clear()
            await self._ended.wait()

    async def drain(self, grace_ms: int) -> None:
        """Let the tasks end within the grace period, then cancel the rest."""
        try:
            async with asyncio.timeout(grace_ms / 1000):
                await self.fewer_than(1)
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        """Cancel the tasks without waiting for them."""
        running = list(self._running.values())
        self._running.clear()  # a task cancelled before it ran does not remove itself
        self._groups.clear()
        for task in running:
            task.cancel()
        self._ended.set()


IDLE_MS = 15_000  # the longest rest of a claim loop; it ends without a question to the store
G = TypeVar("G", bound=Hashable)  # a group
C = TypeVar("C")  # what one task serves


class Batch(NamedTuple, Generic[C]):
    """The result of a claim, and whether more of the group may be due now."""

    claims: Sequence[C]
    more: bool = False


class ClaimLoop(Loop, Generic[G, C]):
    topic: Topic
    claim_prefix = "claim"
    grace_ms = 2_000  # for running claims, when the process stops

    def __init__(self, tasks: Tasks, entropy: Entropy, notifier: Notifier, new_id: Callable[[str], str]) -> None:
        super().__init__(tasks, entropy)
        self._notifier = notifier
        self._new_id = new_id
        self._names: dict[G, str] = {}  # of requests without an answer
        self._idle = asyncio.Event()  # no claim is being made
        self._idle.set()
        self._must_look = False
        self.due: dict[G, None] = {}  # groups of which work may be due, in the order in which they are claimed
        self.running = TaskSet(tasks, name=self.name)

    # --- what a subclass says

    @abstractmethod
    async def look(self) -> Iterable[G]:
        """The groups with due work, after a wake-up that named none."""

    @abstractmethod
    def room(self, group: G) -> int:
        """The number of further claims of the group that may be served now."""

    @abstractmethod
    async def claim(self, group: G, name: str, *, repeated: bool) -> Batch[C]:
        """Claim under a name. A repeated request returns what the first one took."""

    @abstractmethod
    async def serve(self, group: G, claim: C) -> None:
        """Serve one claim to its end."""

    @abstractmethod
    async def give_back(self, group: G, claim: C, error: Exception) -> None:
        """Release a claim whose serving raised."""

    def groups(self, key: Hashable) -> Iterable[G]:  # noqa: ARG002
        """The groups that a key of a wake-up names."""
        return ()

    def pinned(self, group: G, claim: C) -> AbstractContextManager[object]:  # noqa: ARG002
        """The context of the log lines about a claim."""
        return nullcontext()

    def wait_ms(self) -> float:
        """The longest rest; shorter while a group waits for room that comes with time."""
        return IDLE_MS

    # --- what the loop does

    async def step(self) -> bool:
        woken = self._notifier.take(self.topic)
        self._must_look |= woken.anything
        self.due.update(dict.fromkeys(group for key in woken.keys for group in self.groups(key)))
        if self._must_look:
            self.due.update(dict.fromkeys(await self.look()))
            self._must_look = False
        taken = False
        for group in [one for one in self.due if one in self._names or self.room(one) > 0]:
            if self.stopping:
                break
            taken = await self._claim(group) or taken
        return taken

    async def _claim(self, group: G) -> bool:
        del self.due[group]
        self.due[group] = None  # the last in line: if the claim fails, the others come first
        repeated = group in self._names
        name = self._names.setdefault(group, self._new_id(self.claim_prefix))
        self._idle.clear()
        try:
            batch = await self.claim(group, name, repeated=repeated)
        finally:
            self._idle.set()
        del self._names[group]
        if not batch.more:
            self.due.pop(group, None)
        for claim in batch.claims:
            self.running.start(partial(self._serve, group, claim), name=f"{self.name} {group}", group=group)
        return bool(batch.claims)

    async def _serve(self, group: G, claim: C) -> None:
        with self.pinned(group, claim):
            try:
                await self.serve(group, claim)
            except Exception as error:  # noqa: BLE001
                self.tell(error)
                await self.give_back(group, claim, error)
            finally:
                self._notifier.nudge(self.topic)

    def tell(self, error: Exception) -> None:
        """Log an exception of a task."""
        log_failure(self.name, error)

    async def rest(self) -> None:
        await self._notifier.wait(self.topic, timeout_ms=self.wait_ms())

    async def drain(self, grace_ms: int | None = None) -> None:
        """Let the claim that is being made end, then all that are served, each within the grace period."""
        grace_ms = self.grace_ms if grace_ms is None else grace_ms
        await is_set_within(self._idle, grace_ms)
        await self.running.drain(grace_ms)

    def cut_off(self) -> None:
        self.running.cut_off()


class KeyedLock:
    """Tasks with the same key run one after another, so a check still holds when its task acts on it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def alone(self, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())  # the entry lives while a task holds or awaits it
        async with lock:
            yield
