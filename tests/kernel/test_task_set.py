"""A component's tasks are counted while they run, end within a grace period or are cancelled, and fail alone."""

import asyncio
import logging

import pytest

from holdfast.kernel.loop import TaskSet
from holdfast.kernel.machine import AsyncTasks

LONG_MS = 60_000  # far beyond what a passing test waits


@pytest.fixture
def running():
    return TaskSet(AsyncTasks(), name="parts")


async def test_tasks_are_counted_by_group_until_they_end(running):
    ends = {"a": asyncio.Event(), "b": asyncio.Event()}
    for group, end in ends.items():
        running.start(end.wait, name="wait", group=group)
    assert (len(running), running.count("a"), running.count("c")) == (2, 1, 0)
    ends["a"].set()
    await running.fewer_than(1, "a")
    assert (len(running), running.count("a"), running.count("b")) == (1, 0, 1)
    ends["b"].set()
    await running.drain(LONG_MS)
    assert len(running) == 0


async def test_after_the_grace_period_the_rest_is_cancelled(running):
    cancelled = []

    async def stay():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    running.start(stay, name="stay")
    await asyncio.sleep(0)
    await running.drain(0)
    assert len(running) == 0
    await asyncio.sleep(0)
    assert cancelled == [True]


async def test_a_task_that_is_cancelled_before_it_ran_is_not_counted_any_more(running):
    async def never():
        raise AssertionError("it began")

    running.start(never, name="never", group="a")
    running.cut_off()
    assert (len(running), running.count("a")) == (0, 0)


async def test_an_exception_is_logged_and_ends_one_task_only(running, caplog):
    caplog.set_level(logging.INFO, logger="holdfast")
    goes_on = asyncio.Event()

    async def fail():
        raise LookupError("gone")

    running.start(fail, name="fail")
    running.start(goes_on.wait, name="wait")
    await running.fewer_than(2)
    assert [(line.getMessage(), line.fields["loop"], line.fields["code"]) for line in caplog.records] == [
        ("loop.failed", "parts", "LookupError")
    ]
    assert len(running) == 1
    goes_on.set()
    await running.drain(LONG_MS)
