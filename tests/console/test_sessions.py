"""The pages about sessions: what they show of any session, what they cost, what a file of a session has."""

import json
import re
from typing import Any

import pytest

from holdfast.console.pages.session import RecallSource, source_of
from holdfast.turns.policy import AgentPolicy
from tests.console.acting import acted
from tests.console.test_frame import Markup
from tests.support.counting import CountingDatabase
from tests.support.fakes import ScriptedModel, calls, says, soon
from tests.support.live import serve

HOSTILE = "<script>window.hit=1</script>\"'&<img src=x onerror=window.hit=2> ```"


async def page(live, path, **query):
    response = await live.get(path, **query) if query else await live.client.get(path)
    assert response.status_code == 200, response.text
    found = Markup(response.text)
    assert found.refused == []
    assert len(found.ids) == len(set(found.ids))
    return found


async def test_a_session_shows_its_steps_its_context_and_words_as_they_were_written(tmp_path):
    model = ScriptedModel(calls('memory {"action": "read"}', text="Let me look."), says(HOSTILE))
    async with serve(tmp_path / "data", model=model, listed={"main": AgentPolicy(memory={})}) as live:
        session = await live.talk(HOSTILE, chat="den", sender="ada")
        await live.talk(f"/title {HOSTILE}", chat="den", sender="ada")
        found = await page(live, f"/console/sessions/{session}")
        for words in (HOSTILE, "Model call 2 of turn 1", "memory", "Turn 1 committed"):
            assert words in found.words, words
        assert "conversation" in found.words
        assert HOSTILE in (await page(live, "/console/sessions")).words
        assert HOSTILE in (await page(live, f"/console/sessions/{session}/context")).words


async def test_pages_of_sessions_ask_the_store_equally_often_however_long_they_are(tmp_path):
    counting: Any = None

    def counted_by(runtime):
        nonlocal counting
        runtime.db = counting = CountingDatabase(runtime.db)
        return runtime

    async with serve(tmp_path / "data", wrap=counted_by) as live:
        found = []
        for n in range(20):
            session = await live.talk(f"Note {n}", f"Word {n}", chat="den" if n else "home")
            if n in {1, 19}:
                for path in ("/console/sessions", f"/console/sessions/{session}"):
                    await live.client.get(path)
                    with counting.measured() as counted:
                        await page(live, path)
                    found.append(counted.statement_count)
        assert found[:2] == found[2:]


async def test_an_earlier_part_is_a_link_and_later_leads_back(tmp_path):
    async with serve(tmp_path / "data") as live:
        session = await live.talk(*(f"Note {n}" for n in range(12)))
        path = f"/console/sessions/{session}"
        newest = (await live.client.get(path)).text
        assert ("turns 5 to 12" in newest, f"{path}?through=4" in newest) == (True, True)
        oldest = (await live.get(path, through=4)).text
        assert ("turns 1 to 4" in oldest, f"{path}?through=4" in oldest) == (True, True)
        assert f'rel="next" href="{path}"' in oldest.replace("?through=12", "")


async def test_a_file_of_a_session_has_all_of_it_as_json_and_as_markdown(tmp_path):
    async with serve(tmp_path / "data", model=ScriptedModel(otherwise=says("Noted."))) as live:
        session = await live.talk(HOSTILE, "second", "/undo")
        as_json = await live.get(f"/console/sessions/{session}/export")
        assert as_json.headers["content-disposition"] == f'attachment; filename="{session}.json"'
        told = json.loads(as_json.content)
        assert [(one["kind"], one["undone"]) for one in told["entries"]] == [
            *(("user", False), ("assistant", False), ("user", True), ("assistant", True), ("undo", False))
        ]
        assert told["entries"][0]["body"]["text"] == HOSTILE
        assert told["session"]["id"] == session
        as_markdown = await live.get(f"/console/sessions/{session}/export", **{"as": "markdown"})
        assert as_markdown.headers["content-type"].startswith("text/markdown")
        assert (HOSTILE in as_markdown.text, "turn 2, undone" in as_markdown.text) == (True, True)
        wrong = await live.get(f"/console/sessions/{session}/export", **{"as": "pdf"})
        assert wrong.status_code == 400


async def test_a_snapshot_shows_its_summary_and_the_entries_that_it_stands_for(tmp_path):
    async with serve(tmp_path / "data", policy=AgentPolicy(memory={})) as live:
        session = await live.talk(*(f"Note {n}" for n in range(6)), "/compress")
        shown = (await page(live, f"/console/sessions/{session}")).words
        assert "snapshot 1" in shown
        snapshot = (await page(live, f"/console/sessions/{session}/snapshots/1")).words
        assert "Note 0" in snapshot
        assert (await live.client.get(f"/console/sessions/{session}/snapshots/9")).status_code == 404


async def test_a_recollection_leads_to_the_entry_that_it_comes_from(tmp_path):
    async with serve(tmp_path / "data") as live:
        first = await live.talk("My cat is called Byron.", chat="den", sender="ada")
        feed = live.runtime.events()
        while not [one for one in await live.runtime.deliveries(provider="local") if one.state == "delivered"]:
            await soon(feed.next_within(50))
        second = await live.talk("What is my cat called?", chat="home", sender="ada")
        shown = (await live.client.get(f"/console/sessions/{second}")).text
        assert re.search(rf'entry \d+ of <a class="link" href="/console/sessions/{first}">', shown)
        assert "Recall, as injected into turn 1" in shown
    assert source_of("honcho:msg_9") == RecallSource("honcho", "msg_9", "", "")
    assert source_of("local:local:ses_1:3/4") == RecallSource("local", "local:ses_1:3/4", "ses_1", "4")


async def test_a_session_is_compressed_after_a_dry_run(tmp_path):
    async with serve(tmp_path / "data", policy=AgentPolicy(memory={})) as live:
        session = await live.talk(*(f"Note {n}" for n in range(6)))
        assert f"/console/sessions/{session}/compress" in (await live.client.get(f"/console/sessions/{session}")).text
        dialog = (await live.client.get(f"/console/sessions/{session}/compress")).text
        assert "would be asked" in dialog
        assert (await acted(live, dialog)).status_code == 202
        feed = live.runtime.events()
        while "snapshot 1" not in (await page(live, f"/console/sessions/{session}")).words:
            await soon(feed.next_within(50))


@pytest.mark.parametrize("path", ["ses_none", "ses_none/context", "ses_none/export", "ses_none/snapshots/x", "%00"])
async def test_an_unknown_session_is_a_page_that_says_so(tmp_path, path):
    async with serve(tmp_path / "data") as live:
        response = await live.client.get(f"/console/sessions/{path}")
        assert response.status_code in {400, 404}
        assert response.headers["content-type"].startswith("text/html")


async def test_a_session_is_found_by_its_id_or_the_beginning_of_it(tmp_path):
    async with serve(tmp_path / "data") as live:
        session = await live.talk("hello", chat="den")
        for text in (session, session[:-3]):
            found = await live.get("/console/find", q=text)
            assert (found.status_code, found.headers["location"]) == (303, f"{live.url}/console/sessions/{session}")
        other = await live.talk("hello", chat="home")
        for text in ("ses_", "ses_none", "ses_<script>"):
            found = await live.get("/console/find", q=text)
            assert found.headers["location"].startswith(f"{live.url}/console/sessions?q=ses_"), text
        assert other != session


async def test_a_store_without_sessions_says_what_would_be_there(tmp_path):
    async with serve(tmp_path / "data") as live:
        assert "No sessions yet" in (await page(live, "/console/sessions")).words
        assert "None found" in (await page(live, "/console/sessions", q="nobody")).words
