"""Each page of the console at any width, in both themes: nothing is cut off, nothing keeps people out, no word is code.

With HOLDFAST_SHOTS=FOLDER the pages are photographed (`make shots`).
"""

import pytest

from holdfast.console.navigation import MENU
from tests.browser.console_page import NARROW, go, shoot, tab
from tests.browser.world import console_world, settled, tell, tried

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
PATHS = [entry.path for group in MENU for entry in group.entries if entry.path.startswith("/console")]
IN_DARK = {"overview", "session", "deliveries"}  # in the documentation
NARROW_TOO = {"overview", "approvals", "trace-message"}
SERIOUS = {"serious", "critical"}


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with console_world(tmp_path, monkeypatch) as live:
        await tell(live)
        await settled(live, "parked")
        await tried(live)
        yield live


async def paths_in(page):
    """Every page of the menu, and the pages behind a row."""
    await go(page, "/console/messages?q=lamp+flickers")
    trace = await page.get_attribute("#rows a", "href")
    await go(page, "/console/sessions")
    session = await page.get_attribute("main tbody a", "href")
    named = {path.removeprefix("/console").strip("/") or "overview": path for path in PATHS}
    return {**named, "trace-message": trace, "session": session}


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_can_be_read_by_everybody(world, theme):
    from axe_playwright_python.async_playwright import Axe

    async with tab(world, dark=theme == "dark") as page:
        found = {}
        for name, path in (await paths_in(page)).items():
            await go(page, path)
            told = (await Axe().run(page)).response["violations"]
            found[name] = [
                (one["id"], [node["target"] for node in one["nodes"]]) for one in told if one["impact"] in SERIOUS
            ]
            if theme == "light" or name in IN_DARK:
                await shoot(page, f"{name}-{theme}")
        assert {name: some for name, some in found.items() if some} == {}
        assert await page.evaluate("window.hit") is None
        assert page.complaints == []


async def test_every_page_is_readable_at_360_pixels_without_sideways_scrolling(world):
    async with tab(world, size=NARROW, dark=True) as page:
        wide = {}
        for name, path in (await paths_in(page)).items():
            await go(page, path)
            wide[name] = await page.evaluate("document.documentElement.scrollWidth")
            if name in NARROW_TOO:
                await shoot(page, f"{name}-phone")
        assert {name: width for name, width in wide.items() if width > NARROW[0]} == {}
        await page.click(".menu-button")
        assert await page.is_visible("#menu")
        assert page.complaints == []


async def test_hostile_words_are_shown_and_never_run(world):
    async with tab(world) as page:
        await go(page, "/console/messages?q=window.hit")
        assert "<script>window.hit=1</script>" in await page.inner_text("#rows")
        await page.click("#rows a")
        await page.wait_for_selector("text=What happened to this message?")
        assert "<img src=x" in await page.inner_text("main")
        assert await page.evaluate("window.hit") is None
        assert page.complaints == []


async def test_an_unknown_id_leads_to_its_nearest_and_an_unknown_page_to_the_overview(world):
    async with tab(world) as page:
        await go(page, "/console/trace/msg_nothing")
        await shoot(page, "unknown-id")
        await page.click("main li a")
        await page.wait_for_selector("text=What happened to this message?")
        await page.goto("/console/nowhere")
        await page.click("text=To the overview")
        await page.wait_for_url("**/console")
