"""The pages of sessions, notes, ends, people and costs in a real browser: the keys, the address that keeps a step, live
updates, no scrolling to the side on a phone, and no script of anybody's words.
"""

import pytest

from holdfast.monitor.session_list import SessionFilter
from holdfast.monitor.session_list_sql import search_sessions
from tests.browser.chromium import browser
from tests.browser.test_page import shot
from tests.browser.told_store import LISTED, tell
from tests.support.live import serve

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
CURRENT = 'document.querySelector("[data-step][aria-current]")?.dataset.step'
SHOWN = "[...document.querySelectorAll('.step')].filter((one) => one.offsetParent).map((one) => one.id).join()"
PAGES = ("sessions", "memory", "memory/notes?agent=fern&scope=ada", "finish", "people", "spend?agent=fern&days=30")


async def press(page, key):
    for kind in ("keyDown", "keyUp"):
        await page.do("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")


LOGIN = """fetch("/v1/login", {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify({code: "%s"})}).then((response) => response.status)"""


async def login(page, live):
    await page.open(f"{live.url}/console")
    assert await page.run(LOGIN % live.app.logins.new_code()) == 200


async def go(page, live, path):
    await page._load("Page.navigate", url=f"{live.url}/console/{path}")
    await page.until("document.querySelector('#main')")


async def ids(live):
    found = await live.runtime.db.read(search_sessions(SessionFilter()))
    return {one.title or one.principal: one.id for one in found.sessions}


async def test_the_arrow_keys_walk_the_timeline_and_the_address_keeps_the_step(tmp_path):
    await tell(tmp_path / "data")
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data", listed=LISTED) as live:
        await page.resize(1440, 1000)
        await login(page, live)
        session = (await ids(live))["Refunds, week 47"]
        await go(page, live, f"sessions/{session}?through=3")
        await page.until(f"{CURRENT} !== undefined")
        usual = int(await page.run(CURRENT))
        assert await page.run(f"document.querySelector('[data-step=\"{usual}\"]').classList.contains('trouble')")
        await press(page, "Home")
        for _ in range(3):
            await press(page, "ArrowRight")
        await press(page, "ArrowLeft")
        assert (await page.run(CURRENT), await page.run(SHOWN)) == ("2", "at-2")
        assert (await page.run("location.hash"), await page.run("scrollY")) == ("#at-2", 0)
        await press(page, "e")
        assert int(await page.run(CURRENT)) == usual
        await shot(page, "session")
        await page.run("window.marked = document.getElementById('at-2')")
        await page.until("document.querySelector('.live-word').textContent === 'live'")
        await page.run("document.querySelector('#tl-at').textContent = 'stale'")
        await page.until("document.querySelector('#tl-at').textContent !== 'stale'")  # a live update came, and the walk
        assert int(await page.run(CURRENT)) == usual  # goes on
        assert await page.run("window.marked === document.getElementById('at-2')")
        await page.reload()
        await page.until(f"{CURRENT} !== undefined")
        assert int(await page.run(CURRENT)) == usual
        await page.run(
            "document.querySelector('[data-step=\"1\"]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        assert await page.run(SHOWN) == "at-1"
        assert await page.run("window.hit") is None
        assert [one for one in page.complaints if "401" not in one] == []


async def test_no_page_scrolls_to_the_side_on_a_phone_and_no_words_run(tmp_path):
    await tell(tmp_path / "data")
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data", listed=LISTED) as live:
        await login(page, live)
        found = await ids(live)
        sessions = [f"sessions/{one}" for one in found.values()] + [f"sessions/{found['Refunds, week 47']}/context"]
        for width, dark in ((360, False), (1440, True)):
            await page.resize(width, 900, dark=dark)
            for path in (*PAGES, *sessions):
                await go(page, live, path)
                assert await page.run("document.documentElement.scrollWidth") <= width, path
                assert await page.run("window.hit") is None, path
        assert [one for one in page.complaints if "401" not in one] == []


async def test_a_new_turn_appears_on_the_open_page(tmp_path):
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data") as live:
        session = await live.talk("My cat is called Byron.", chat="den")
        await page.resize(1440, 1000)
        await login(page, live)
        await go(page, live, f"sessions/{session}")
        steps = await page.run("document.querySelectorAll('[data-step]').length")
        await live.talk("And my dog Ada.", chat="den")
        await page.until("document.getElementById('main').textContent.includes('And my dog Ada.')")
        assert await page.run("document.querySelectorAll('[data-step]').length") > steps
