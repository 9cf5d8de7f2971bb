"""A watch looks at its mailbox as soon as a message was accepted, not only once a second."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.kernel.machine import AsyncTasks
from holdfast.kernel.notifier import Event, Notifier
from holdfast.turns import turn_run
from holdfast.turns.turn_run import Interruption, MailboxWatch
from tests.support.patience import within


class Mailbox:
    """A store whose open turn is to be stopped."""

    async def read(self, _call):
        return SimpleNamespace(turn=SimpleNamespace(stopping=True), waiting=())


@pytest.fixture
def ports(monkeypatch) -> Any:
    monkeypatch.setattr(turn_run, "LOOK_EVERY_MS", 3_600_000)
    return SimpleNamespace(db=Mailbox(), notifier=Notifier(), tasks=AsyncTasks())


def watch(ports, **options) -> MailboxWatch:
    return MailboxWatch(ports, cast("Any", SimpleNamespace(mailbox="box")), **options)


@pytest.mark.parametrize(("is_news", "interrupts"), [(True, False), (False, True)], ids=["news", "arrivals interrupt"])
async def test_a_message_from_before_the_work_is_looked_at_when_it_starts(ports, is_news, interrupts):
    racing = watch(ports, is_news=is_news).race(asyncio.Event().wait(), arrivals_interrupt=interrupts)
    async with within(5):
        assert await racing is Interruption.STOPPED


async def test_a_message_during_the_work_is_looked_at_when_it_is_accepted(ports):
    watched, begun = watch(ports), asyncio.Event()

    async def work():
        begun.set()
        await asyncio.Event().wait()

    racing = asyncio.ensure_future(watched.race(work(), arrivals_interrupt=False))
    await begun.wait()
    ports.notifier.publish(Event(name="message.accepted", mailbox="box"))
    async with within(5):
        assert await racing is Interruption.STOPPED
