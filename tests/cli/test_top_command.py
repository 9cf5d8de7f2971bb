"""The promise: `holdfast top` shows the status and what happens, live, at any size, and says when it was true.

Rules: R8, R40.
"""

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest
from textual.widgets import DataTable, RichLog, Static

from holdfast.cli.opening import Invocation
from holdfast.cli.top import EXAMINED_EVERY, TopSource
from holdfast.cli.top_screen import TextPage, TopScreen
from holdfast.kernel.errors import StoreUnavailable
from tests.cli.test_cli import here, refused


@asynccontextmanager
async def screen(folder, *, size=(120, 45)):
    invocation = Invocation(folder, None, as_json=False)
    async with invocation.visiting() as runtime:
        app = TopScreen(TopSource(invocation, runtime), utc=True)
        async with app.run_test(size=size) as pilot:
            yield app, pilot, runtime


def told(app, name):
    return str(app.query_one(f"#{name}", Static).content)


def cells(app, name):
    table = app.query_one(f"#{name}", DataTable)
    return [[cell.plain for cell in table.get_row_at(n)] for n in range(table.row_count)]


@pytest.fixture
async def data(tmp_path):
    await asyncio.to_thread(here, "send", "hello", "--chat", "ada", "--data", tmp_path)
    return tmp_path


async def test_the_screen_shows_what_status_shows_and_when_it_was_true(data):
    async with screen(data) as (app, _, _runtime):
        assert told(app, "headline") == "1 stuck · 1 message waits"
        assert "No process serves this data folder" in told(app, "process")
        ((urgency, what, _, command),) = cells(app, "needs")
        assert (urgency, what, command) == (
            "stuck",
            "No process serves this store, and 1 message waits",
            "holdfast up",
        )
        assert [row[:2] for row in cells(app, "agents")] == [["main", "1 waiting"]]
        assert told(app, "stamp").startswith("true as of 2")
        assert told(app, "stamp").endswith("UTC, live")


async def test_what_happens_appears_without_a_key_and_numbers_change_in_place(data):
    async with screen(data) as (app, pilot, runtime):
        agents = app.query_one("#agents", DataTable)
        before = [row.key for row in agents.ordered_rows]
        await runtime.send("ada", "My cat is called Byron.")
        await app.action_look()
        await pilot.pause()
        lines = [line.text for line in app.query_one("#events", RichLog).lines]
        assert any("accepted: My cat is called Byron." in line for line in lines), lines
        assert [row[:2] for row in cells(app, "agents")] == [["main", "2 waiting"]]
        assert [row.key for row in agents.ordered_rows] == before
        await pilot.press("u")
        assert "live" in told(app, "stamp")


async def test_enter_says_what_to_type_about_a_need_and_escape_goes_back(data):
    async with screen(data) as (app, pilot, _):
        app.query_one("#needs", DataTable).focus()
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, TextPage)
        assert app.screen.lines[-2:] == ["Type this:", "holdfast up"]
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, TextPage)


async def test_the_timeline_of_a_message_opens_over_the_screen_and_a_wrong_one_is_named(data):
    async with screen(data) as (app, pilot, runtime):
        message = await runtime.send("ada", "And my dog?")
        await app._show_timeline(message)
        await pilot.pause()
        assert isinstance(app.screen, TextPage)
        assert any("accepted and durable" in line for line in app.screen.lines)
        await pilot.press("q")
        await app._show_timeline("msg_unknown")
        await pilot.pause()
        assert app.screen.lines[0].startswith("message_not_found: ")


async def test_a_store_that_does_not_answer_is_named_and_what_was_shown_stays(data, monkeypatch):
    async with screen(data) as (app, pilot, _):
        shown = cells(app, "needs")

        async def unavailable():
            raise StoreUnavailable("the database is locked")

        monkeypatch.setattr(app._source, "overview", unavailable)
        await app.action_look()
        await pilot.pause()
        assert told(app, "stamp") == "not live: store_unavailable: the database is locked"
        assert cells(app, "needs") == shown


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_a_small_terminal_shows_it_too_and_a_key_ends_it(data, key):
    async with screen(data, size=(40, 20)) as (app, pilot, _):
        assert told(app, "headline") == "1 stuck · 1 message waits"
        await pilot.press(key)
        await pilot.pause()
    assert app.return_code == 0


async def test_the_process_and_a_write_are_examined_only_now_and_then(data):
    async with Invocation(data, None, as_json=False).visiting() as runtime:
        source = TopSource(Invocation(data, None, as_json=False), runtime)
        healths = [(await source.overview()).health.at for _ in range(EXAMINED_EVERY)]
        assert len(set(healths)) == 1


def test_without_a_terminal_or_without_textual_it_is_refused(data_folder, monkeypatch):
    refused(here("top", "--data", data_folder), "invalid_input")
    refused(here("top", "--json", "--data", data_folder), "invalid_input")
    monkeypatch.setattr("holdfast.cli.top.is_at_a_terminal", lambda: True)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    monkeypatch.delitem(sys.modules, "holdfast.cli.top_screen", raising=False)
    done = here("top", "--data", data_folder)
    refused(done, "config_invalid")
    assert "holdfast[top]" in done.stderr


@pytest.fixture
def data_folder(tmp_path):
    here("send", "hello", "--data", tmp_path)
    return tmp_path
