"""A loop survives every exception of its step: it logs the exception once, pauses longer each time, and continues."""

import asyncio
import logging

import pytest

from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.loop import PAUSE_MS_MAX, Loop
from holdfast.kernel.machine import AsyncTasks
from holdfast.testing import SeededEntropy


class NoWaiting(AsyncTasks):
    """Sleeps are noted instead of slept."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, delay_ms: float) -> None:
        self.slept.append(delay_ms)


class Steps(Loop):
    """A loop that does what it is told, step by step, and then stops."""

    name = "steps"

    def __init__(self, *script: bool | Exception) -> None:
        self.tasks = NoWaiting()
        super().__init__(self.tasks, SeededEntropy(1))
        self.script = list(script)
        self.done: list[str] = []
        self.rest_fails = False

    async def step(self) -> bool:
        what = self.script.pop(0)
        self.stopping = not self.script
        self.done.append(type(what).__name__ if isinstance(what, Exception) else "worked" if what else "idle")
        if isinstance(what, Exception):
            raise what
        return what

    async def rest(self) -> None:
        self.done.append("rested")
        if self.rest_fails:
            raise OSError("the bell is gone")


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, logger="holdfast")
    return lambda: [record for record in caplog.records if record.name == "holdfast"]


async def test_it_steps_while_there_is_work_and_rests_while_there_is_none():
    loop = Steps(True, True, False, True)
    await loop.run()
    assert loop.done == ["worked", "worked", "idle", "rested", "worked"]
    assert loop.tasks.slept == []


async def test_it_does_not_rest_once_it_was_told_to_stop():
    loop = Steps(True, False)
    await loop.run()
    assert loop.done == ["worked", "idle"]


async def test_a_failing_step_is_logged_once_and_the_loop_goes_on(logged):
    loop = Steps(LookupError("gone"), True)
    await loop.run()
    assert loop.done == ["LookupError", "worked"]
    (line,) = logged()
    assert (line.getMessage(), line.levelname) == ("loop.failed", "ERROR")
    assert line.fields == {"loop": "steps", "code": "LookupError", "why": "gone"}
    assert line.exc_info, "a surprise is told with its trace"


async def test_an_error_of_ours_is_told_by_its_code_without_a_trace(logged):
    await Steps(StoreUnavailable("the database is away"), True).run()
    (line,) = logged()
    assert line.fields["code"] == "store_unavailable"
    assert not line.exc_info


async def test_pauses_grow_with_each_failure_up_to_a_limit_and_start_again_after_a_success():
    failures = [StoreUnavailable("away") for _ in range(8)]
    loop = Steps(*failures, True, StoreUnavailable("away"), True)
    await loop.run()
    *growing, after_success = loop.tasks.slept
    assert growing[0] < growing[1] < growing[2] < growing[3]
    assert max(growing) <= PAUSE_MS_MAX * 1.25
    assert after_success <= 625


async def test_a_failing_rest_is_survived_too(logged):
    loop = Steps(False, True)
    loop.rest_fails = True
    await loop.run()
    assert loop.done == ["idle", "rested", "worked"]
    assert [line.fields["code"] for line in logged()] == ["OSError"]


async def test_being_cancelled_ends_it():
    loop = Steps(True)

    async def for_ever() -> bool:
        await asyncio.get_running_loop().create_future()
        return True

    loop.step = for_ever  # type: ignore[method-assign]
    running = asyncio.create_task(loop.run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
