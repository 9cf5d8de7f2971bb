"""The promise: the time up to which an account heard everything is never later than true, and seldom written."""

from holdfast.channels.receiving import EVERY_MS, LEAST_MS, OVERLAP_MS, WHOLE, AccountWatermark
from holdfast.inbox.channel import IntakeOutcome
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import Instant
from holdfast.kernel.machine import AsyncTasks

START = 1_700_000_000_000


class Book:
    """Implements `Intake`, as far as it goes here."""

    def __init__(self):
        self.marks = {}
        self.writes = 0
        self.error = None

    async def receive(self, message: ChatMessage) -> IntakeOutcome:
        raise AssertionError("no message is expected")

    async def read_up_to(self, account):
        return dict(self.marks)

    async def note_read(self, account, conversation, position, event_id):
        if self.error is not None:
            raise self.error
        self.writes += 1
        if position > self.marks.get(conversation, (0, ""))[0]:
            self.marks[conversation] = (position, event_id)

    async def moved(self, old_chat, new_chat, *, new_type):
        raise AssertionError("no move is expected")

    def connected(self, detail=""):
        raise AssertionError("it does not connect by itself")

    def disconnected(self, reason, *, vendor=None):
        raise AssertionError("it does not connect by itself")


class Hands:
    def __init__(self):
        self.ms = START

    def now(self):
        return Instant(self.ms)


class Done(Exception):
    """Ends what goes on until it is cancelled."""


class Minutes(AsyncTasks):
    """A clock that goes on when somebody sleeps, so many times."""

    def __init__(self, hands, times):
        super().__init__()
        self.hands, self.left = hands, times

    async def sleep(self, delay_ms):
        if not self.left:
            raise Done
        self.left -= 1
        self.hands.ms += delay_ms


def watermark_of(book, hands, minutes=0):
    return AccountWatermark("slack:1", book, clock=hands, tasks=Minutes(hands, minutes))


async def kept(watermark, has_read_all):
    try:
        await watermark.keep(has_read_all)
    except Done:
        return


async def test_the_first_start_is_on_record_and_asks_for_nothing():
    book, hands = Book(), Hands()
    book.marks["C1"] = (7, "7")
    watermark = watermark_of(book, hands)
    assert await watermark.resume() == {"C1": (7, "7")}
    assert watermark.since_ms is None
    assert book.marks[WHOLE] == (START, str(START))


async def test_a_later_start_asks_from_before_the_time_and_never_from_before_the_first_start():
    book, hands = Book(), Hands()
    await watermark_of(book, hands).resume()
    hands.ms += 10 * OVERLAP_MS
    second = watermark_of(book, hands)
    assert await second.resume() == {}
    assert second.since_ms == START
    await second.advance(hands.ms)
    third = watermark_of(book, hands)
    await third.resume()
    assert third.since_ms == hands.ms - OVERLAP_MS


async def test_a_time_is_written_now_and_then_while_everything_is_heard():
    book, hands = Book(), Hands()
    watermark = watermark_of(book, hands, minutes=10)
    await watermark.resume()
    answers = iter([True, False, False, True, *[False] * 6])
    await kept(watermark, lambda: next(answers))
    assert book.writes == 3
    assert book.marks[WHOLE] == (START + 4 * EVERY_MS, str(START))


async def test_a_time_that_is_hardly_later_is_not_written():
    book, hands = Book(), Hands()
    watermark = watermark_of(book, hands)
    await watermark.resume()
    await watermark.advance(START + LEAST_MS - 1)
    assert book.writes == 1
    await watermark.advance(START + LEAST_MS)
    assert book.writes == 2


async def test_a_store_that_is_away_leaves_the_time_where_it_was():
    book, hands = Book(), Hands()
    watermark = watermark_of(book, hands)
    await watermark.resume()
    book.error = StoreUnavailable("away")
    await watermark.advance(START + EVERY_MS)
    book.error = None
    await watermark.advance(START + EVERY_MS)
    assert book.marks[WHOLE][0] == START + EVERY_MS


async def test_a_clock_that_was_put_back_hides_nothing_that_is_said_from_then_on():
    book, hands = Book(), Hands()
    await watermark_of(book, hands).resume()
    book.marks[WHOLE] = (START + 1_000 * OVERLAP_MS, str(START))
    hands.ms = START + 2 * OVERLAP_MS
    watermark = watermark_of(book, hands)
    await watermark.resume()
    assert watermark.since_ms == START + OVERLAP_MS
