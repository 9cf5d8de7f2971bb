"""Every log line names an event of the one table, carries the fields pinned by its scope, and holds no words of a
message.
"""

import asyncio
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import holdfast
from holdfast.kernel import log
from holdfast.kernel.machine import AsyncTasks
from tests.test_tidy import FILES, LEVELS, events_logged
from tools import source

LOGGING = re.compile(rf"log(ger)?\.({'|'.join(LEVELS)})\(")  # other files are not worth parsing

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What was logged so far, read back from the JSON lines."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(log.JsonLines())
    logger = logging.getLogger("holdfast")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    logger.setLevel(before)
    logger.removeHandler(handler)


def said(lines: Lines) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key not in {"at", "level"}} for line in lines()]


# --- pins --------------------------------------------------------------------------------------------------------


def test_pins_are_on_every_line_inside_and_on_none_after(lines):
    with log.pinned(session="ses_1"):
        log.info("turn.opened")
        with log.pinned(turn=3, session="ses_2"):
            log.info("turn.stepped", attempt=1)
        log.info("turn.committed")
    log.info("runtime.closed")
    assert said(lines) == [
        {"event": "turn.opened", "session": "ses_1"},
        {"event": "turn.stepped", "session": "ses_2", "turn": 3, "attempt": 1},
        {"event": "turn.committed", "session": "ses_1"},
        {"event": "runtime.closed"},
    ]


def test_pins_end_when_the_block_is_left_by_an_error():
    with pytest.raises(LookupError), log.pinned(session="ses_1"):
        raise LookupError
    assert log.pins() == {}


async def test_pins_follow_awaits_and_tasks_and_do_not_leak_between_them(lines):
    turn = asyncio.Event()

    async def work(session: str) -> None:
        with log.pinned(session=session):
            log.info("turn.opened")
            await turn.wait()
            await step()

    async def step() -> None:
        log.info("turn.committed")

    with log.pinned(node="n1"):
        tasks = [asyncio.create_task(work(session)) for session in ("ses_1", "ses_2")]
    await asyncio.sleep(0)
    turn.set()
    await asyncio.gather(*tasks)
    assert log.pins() == {}
    found = [(line["event"], line["node"], line["session"]) for line in said(lines)]
    assert sorted(found) == [
        (event, "n1", session) for event in ("turn.committed", "turn.opened") for session in ("ses_1", "ses_2")
    ]


async def test_pins_follow_callbacks():
    called = asyncio.get_running_loop().create_future()
    with log.pinned(session="ses_1"):
        asyncio.get_running_loop().call_soon(lambda: called.set_result(dict(log.pins())))
    assert await called == {"session": "ses_1"}


def test_pins_are_carried_into_a_thread_only_on_purpose():
    found: list[dict[str, object]] = []

    def look() -> None:
        found.append(dict(log.pins()))

    with log.pinned(session="ses_1"):
        threads = [Thread(target=look), Thread(target=log.carried(look))]
    for thread in threads:
        thread.start()
        thread.join()
    assert found == [{}, {"session": "ses_1"}]


async def test_the_tasks_port_carries_pins_into_threads_and_tasks():
    tasks, found = AsyncTasks(), asyncio.get_running_loop().create_future()

    async def work() -> None:
        found.set_result(dict(log.pins()))

    with log.pinned(operation="op_1"):
        assert await tasks.in_thread(lambda: dict(log.pins())) == {"operation": "op_1"}
        tasks.start(work(), name="work")
    assert await found == {"operation": "op_1"}


def test_a_carried_call_gives_back_its_result():
    assert log.carried(lambda: 7)() == 7


# --- lines -------------------------------------------------------------------------------------------------------


def test_a_line_has_time_level_event_and_fields(lines):
    log.warning("claim.lost", fence=3)
    (line,) = lines()
    assert (line["level"], line["event"], line["fence"]) == ("warning", "claim.lost", 3)
    assert line["at"] > 1_700_000_000


def test_a_failure_is_told_with_its_trace(lines):
    log.error("loop.failed", failure=LookupError("gone"), loop="worker")
    (line,) = lines()
    assert line["trace"].endswith("LookupError: gone")


@pytest.mark.parametrize("value", ["a\nb", "é😀", "\x1b[31m", "\ud800", Path("data"), None, {"a": [1]}, b"raw", 1e400])
def test_whatever_a_field_holds_the_line_stays_one_line_of_utf_8(value):
    record = logging.LogRecord("holdfast", logging.INFO, "", 0, "turn.opened", None, None)
    record.fields = {"value": value}
    text = log.JsonLines().format(record)
    assert "\n" not in text
    assert text.encode()
    assert json.loads(text)["event"] == "turn.opened"


def test_a_line_of_another_library_is_written_too():
    record = logging.LogRecord("other", logging.INFO, "", 0, "hello %s", ("you",), None)
    assert json.loads(log.JsonLines().format(record))["event"] == "hello you"


def test_a_library_is_silent_until_its_user_says_where_the_lines_go(capfd):
    log.error("store.broken", why="nobody listens")
    assert capfd.readouterr() == ("", "")


# --- events ------------------------------------------------------------------------------------------------------


def test_every_event_of_the_table_is_logged_somewhere():
    logging_files = [path for path in FILES if LOGGING.search(path.read_text(encoding="utf-8"))]
    logged = {event for path in logging_files for _, event in events_logged(source.parse(path))}
    source.forget()
    assert set(log.EVENTS) - logged == set()


@pytest.mark.parametrize(("event", "meaning"), log.EVENTS.items())
def test_an_event_is_a_noun_and_what_happened_to_it(event, meaning):
    noun, _, verb = event.partition(".")
    assert noun.isalpha()
    assert verb.isalpha()
    assert meaning
    assert not meaning.endswith(".")


# --- people's words ----------------------------------------------------------------------------------------------


async def test_peoples_words_stay_in_the_journal(lines, tmp_path):
    """A whole life of a conversation: facts, questions, tools that work and fail, commands, compression."""

    def fetch(topic: str) -> str:
        """Look something up."""
        if topic == "zebra":
            raise LookupError("the zebra is secret")
        return "a quokka smiles"

    async with holdfast.open(tmp_path, tools=[fetch]) as runtime:
        for said_, text in enumerate(
            [
                "my parrot is called Marlowe",
                "what is my parrot called?",
                'use fetch {"topic": "walrus"}',
                'use fetch {"topic": "zebra"}',
                'use fetch {"gibberish": ocelot}',
                "/title the ocelot papers",
                "/compress",
                "/branch the walrus files",
                "/undo 1",
                "/resume the ocelot papers",
                "/status",
                "/new",
            ]
        ):
            await runtime.ask("chat", text, id=str(said_), sender="dodo")
    written = json.dumps(said(lines), ensure_ascii=False)
    assert "turn.committed" in written
    assert "command.done" in written
    secrets = ["parrot", "Marlowe", "walrus", "zebra", "quokka", "ocelot", "dodo"]
    assert [word for word in secrets if word.lower() in written.lower()] == []
