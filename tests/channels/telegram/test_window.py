"""The promise: updates of one chat are taken in their order, and a chat that moves belongs to both of its ids.

An offset is sent until Telegram has answered a poll with it.
"""

import asyncio
from typing import Any, cast

import pytest

from holdfast.channels.telegram.reading import IncomingUpdate
from holdfast.channels.telegram.receiving import UpdateWindow, poll
from holdfast.channels.telegram.wire import BotApiError, BotApiErrorKind
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel.errors import StoreUnavailable
from tests.support.fakes import soon
from tests.support.pace import HastyTasks

OLD, NEW = "-5", "-1005"


def said(n, chat):
    message = ChatMessage(account="telegram:1", event_id=str(n), chat=chat, sender="5", text=str(n))
    return IncomingUpdate(id=n, message=message)


def moves(n):
    return IncomingUpdate(id=n, moved=(OLD, NEW))


class Hand:
    """Takes an update when it is let, or fails with it; remembers which were begun and taken."""

    def __init__(self):
        self.begun = []
        self.taken = []
        self.gates = {}
        self.failing = set()

    def hold(self, n):
        self.gates[n] = asyncio.Event()

    async def take(self, arrival):
        self.begun.append(arrival.id)
        if arrival.id in self.gates:
            await self.gates[arrival.id].wait()
        if arrival.id in self.failing:
            raise StoreUnavailable("away")
        self.taken.append(arrival.id)


async def run_dry():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("chat", [OLD, NEW])
async def test_a_move_waits_for_what_was_said_in_either_chat(chat):
    window, hand = UpdateWindow(HastyTasks()), Hand()
    hand.hold(1)
    window.put(said(1, chat), hand.take)
    window.put(moves(2), hand.take)
    await run_dry()
    assert hand.begun == [1]
    hand.gates[1].set()
    await window.settle(5_000)
    assert hand.taken == [1, 2]


@pytest.mark.parametrize("chat", [OLD, NEW])
async def test_what_is_said_in_either_chat_waits_for_the_move(chat):
    window, hand = UpdateWindow(HastyTasks()), Hand()
    hand.hold(1)
    window.put(moves(1), hand.take)
    window.put(said(2, chat), hand.take)
    await run_dry()
    assert hand.begun == [1]
    hand.gates[1].set()
    await window.settle(5_000)
    assert hand.taken == [1, 2]


@pytest.mark.parametrize("chat", [OLD, NEW])
async def test_behind_a_failure_in_either_chat_neither_the_move_nor_what_follows_it_is_taken(chat):
    window, hand = UpdateWindow(HastyTasks()), Hand()
    hand.failing = {1}
    window.put(said(1, chat), hand.take)
    window.put(said(2, OLD if chat == NEW else NEW), hand.take)
    window.put(moves(3), hand.take)
    window.put(said(4, OLD if chat == NEW else NEW), hand.take)
    with pytest.raises(StoreUnavailable):
        await window.settle(5_000)
    assert hand.taken == [2]
    assert window.offset() is None


class Connection:
    """A connection that never waits."""

    is_up = True

    async def persist(self, call):
        return await call()

    async def down(self, failure):
        pass

    def up(self, detail):
        pass


class Telegram:
    """Answers each poll from a script, and remembers the offsets; a poll beyond the script stands still."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.offsets = []
        self.at_the_end = asyncio.Event()

    async def drop_webhook(self):
        pass

    async def updates(self, offset, wait_s):
        self.offsets.append(offset)
        if not self.answers:
            self.at_the_end.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Taker(Hand):
    def read(self, raw):
        return said(raw["update_id"], OLD)


async def test_an_offset_is_sent_until_a_poll_with_it_has_been_answered():
    away = BotApiError(BotApiErrorKind.UNREACHABLE, "no answer")
    telegram, taker = Telegram([{"update_id": 7}], away, away, []), Taker()
    polling = asyncio.ensure_future(
        poll(
            cast("Any", telegram),
            cast("Any", Connection()),
            UpdateWindow(HastyTasks()),
            cast("Any", lambda: taker),
            poll_s=1,
        )
    )
    await soon(telegram.at_the_end.wait())
    polling.cancel()
    await asyncio.wait([polling])
    assert telegram.offsets == [None, 8, 8, 8, None]
    assert taker.taken == [7]
