"""The console in a real Chromium, driven by Playwright. What the console of the browser says is kept."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.browser.chromium import executable
from tests.support.live import Live

SHOTS = os.environ.get("HOLDFAST_SHOTS")
SHOT_BYTES_MAX, SHOT_HEIGHT_MAX = 200_000, 900
WIDE, NARROW = (1360, 860), (360, 800)
ZONE = "Europe/Berlin"
LIVE = "#stamp .live-word:text-is('live')"


@asynccontextmanager
async def tab(
    live: Live, *, size: tuple[int, int] = WIDE, dark: bool = False, login: bool = True
) -> AsyncIterator[Any]:
    """A Playwright page, logged in unless told otherwise. `page.complaints` has errors and violations of the policy."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path=executable(), args=options)
        context = await browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            timezone_id=ZONE,
            color_scheme="dark" if dark else "light",
            base_url=live.url,
            reduced_motion="reduce",
        )
        page = await context.new_page()
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda said: page.complaints.append(said.text) if is_complaint(said) else None)
        if login:
            await page.goto(f"/console#code={live.app.logins.new_code()}")
            await page.wait_for_selector(LIVE)
        yield page
        await browser.close()


def is_complaint(said: Any) -> bool:
    """A status that a test asks for on purpose is none."""
    return said.type == "error" and "the server responded with a status of" not in said.text


async def go(page: Any, path: str) -> None:
    await page.goto(path)
    await page.wait_for_selector(LIVE)


async def shoot(page: Any, name: str) -> None:
    """Keep what the page looks like, where a folder for it is named. The end of a long page is cut off."""
    if SHOTS:
        file = Path(SHOTS) / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        width = page.viewport_size["width"]
        height = min(SHOT_HEIGHT_MAX, await page.evaluate("document.documentElement.scrollHeight"))
        clip = {"x": 0, "y": 0, "width": width, "height": height}
        await page.screenshot(path=file, full_page=True, clip=clip)
        assert file.stat().st_size <= SHOT_BYTES_MAX, f"{file} has {file.stat().st_size} bytes"
