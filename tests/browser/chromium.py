"""A real headless Chromium, driven over its own debugging protocol."""

import asyncio
import base64
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.support.patience import within

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
UNTIL = """(async () => {
  while (!(%s)) await new Promise((go) => setTimeout(go, 20));
  return true;
})()"""


def executable() -> str:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, f"these tests need Chromium: put one of {', '.join(NAMES)} on PATH"
    return found


class Page:
    """One tab."""

    def __init__(self, connection: ClientConnection, session: str, ids: "itertools.count[int]") -> None:
        self._connection = connection
        self._session = session
        self._ids = ids
        self._loads = 0
        self.complaints: list[str] = []  # what the console and the security policy said

    async def do(self, method: str, **params: Any) -> Any:
        wanted = next(self._ids)
        await self._connection.send(
            json.dumps({"id": wanted, "method": method, "params": params, "sessionId": self._session})
        )
        while (message := await self._hear()).get("id") != wanted:
            pass
        assert "error" not in message, message
        return message["result"]

    async def _hear(self) -> Any:
        message = json.loads(await self._connection.recv())
        method, params = message.get("method"), message.get("params", {})
        self._loads += method == "Page.loadEventFired"
        if method == "Runtime.exceptionThrown" or params.get("entry", {}).get("level") in {"warning", "error"}:
            self.complaints.append(json.dumps(params))
        return message

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.do(f"{domain}.enable")
        await self._load("Page.navigate", url=url)

    async def reload(self) -> None:
        await self._load("Page.reload")

    async def _load(self, method: str, **params: Any) -> None:
        before = self._loads
        await self.do(method, **params)
        while self._loads == before:
            await self._hear()

    async def run(self, script: str) -> Any:
        answer = await self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a condition holds in the page, looking again and again."""
        async with within(30):
            await self.run(UNTIL % condition)

    async def shot(self) -> bytes:
        """What it looks like, as PNG."""
        return base64.b64decode((await self.do("Page.captureScreenshot", format="png"))["data"])

    async def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        await self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.do("Emulation.setEmulatedMedia", features=scheme)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    process = await asyncio.create_subprocess_exec(
        executable(),
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={folder}", "about:blank"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        line = ""
        while not (found := re.search(r"ws://\S+", line)):
            line = (await process.stderr.readline()).decode()
            assert line, "Chromium did not start"
        async with connect(found[0], max_size=None, proxy=None) as connection:
            yield await _first_tab(connection, itertools.count(1))
    finally:
        process.kill()
        await process.wait()


async def _first_tab(connection: ClientConnection, ids: "itertools.count[int]") -> Page:
    async def ask(method: str, **params: Any) -> Any:
        wanted = next(ids)
        await connection.send(json.dumps({"id": wanted, "method": method, "params": params}))
        while (message := json.loads(await connection.recv())).get("id") != wanted:
            pass
        return message["result"]

    target = next(one for one in (await ask("Target.getTargets"))["targetInfos"] if one["type"] == "page")
    session = await ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    return Page(connection, session["sessionId"], ids)
