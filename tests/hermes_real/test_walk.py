"""The walk of docs/howto/hermes-walk.md with the real Hermes: its commands run in order and print what the page says.

`<!-- walk -->` stands above each command; a number is its exit code, and `settled` waits for the deliveries before it.
Hindsight and Honcho are the fakes of tests/support, over sockets; the model is a stub.
"""

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import zip_longest
from pathlib import Path

import pytest
from aiohttp import web

from holdfast.hermes.plugin import client
from tests.support.hermes_service import MemoryServers, memory_servers
from tests.test_docs import matches

pytestmark = [pytest.mark.hermes, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "hermes-walk.md"
BLOCK = re.compile(
    r"(?P<walk><!-- walk ?(?P<how>\w*) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
PROCESS = re.compile(r"kill (\d+)")


def commands() -> list[tuple[str, str, str | None]]:
    """Each command of the page: how it is run, its text, and what it prints."""
    blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    found = []
    for block, following in zip_longest(blocks, blocks[1:]):
        if block["walk"]:
            found.append((block["how"], block["text"], following["text"] if following["kind"] == "text" else None))
    return found


@asynccontextmanager
async def stub_model() -> AsyncIterator[str]:
    """An OpenAI-compatible server that repeats the last message."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"object": "list", "data": [{"id": "stub", "object": "model"}]})
        asked = await request.json()
        said = [one["content"] for one in asked["messages"] if one["role"] == "user"][-1]
        message = {"role": "assistant", "content": f"Noted: {said}"[:80]}
        head = {"id": "c", "created": 1, "model": "stub"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        if not asked.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for choices in (
            [{"index": 0, "delta": message, "finish_reason": None}],
            [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            [],
        ):
            part = {
                **head,
                "object": "chat.completion.chunk",
                "choices": choices,
                **({} if choices else {"usage": usage}),
            }
            await response.write(f"data: {json.dumps(part)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def furnish(folder: Path, hermes_python: Path) -> dict[str, str]:
    """The folder as it is after "Install both"; the environment of the commands."""
    (folder / "hermes").symlink_to(hermes_python.parent.parent, target_is_directory=True)
    (folder / "checkout").symlink_to(ROOT, target_is_directory=True)
    command = folder / "holdfast" / "bin" / "holdfast"
    command.parent.mkdir(parents=True)
    source = shlex.quote(str(ROOT / "src"))
    command.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {shlex.quote(sys.executable)} -m holdfast "$@"\n')
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HOLDFAST_"))}
    path = os.pathsep.join([str(folder / "holdfast" / "bin"), str(folder / "hermes" / "bin"), os.environ["PATH"]])
    own = {"HERMES_HOME": str(folder / "home"), "HERMES_DISABLE_LAZY_INSTALLS": "1", "HOME": str(folder)}
    return {**kept, **own, "PATH": path, "COLUMNS": "200"}


async def run(text: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", text), stdout=asyncio.subprocess.PIPE, cwd=folder, env=environment
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def settle(home: Path) -> None:
    """Wait until the process beside Hermes has started and delivered everything."""
    is_settled = False
    while not is_settled:
        answer = await asyncio.to_thread(client.ask, home, {"op": "settled", "budget_ms": 8_000}, 60.0)
        is_settled = answer is not None and bool(answer.get("settled"))


def with_addresses(text: str, servers: MemoryServers) -> str:
    changed = text.replace("http://127.0.0.1:8888", servers.hindsight.url)
    return changed.replace("http://127.0.0.1:8000", servers.honcho.url)


async def test_the_walk_is_as_the_page_says(hermes_python, tmp_path):
    environment, home = furnish(tmp_path, hermes_python), tmp_path / "home"
    printed = ""
    async with memory_servers() as servers, stub_model() as model:
        for how, text, told in commands():
            if text.startswith("hermes chat"):
                config = home / "config.yaml"
                config.write_text(re.sub(r"http://127\.0\.0\.1:\d+", model, config.read_text()))
            if how == "settled":
                await settle(home)
            code, printed = await run(with_addresses(text, servers), tmp_path, environment)
            assert code == (int(how) if how.isdigit() else 0), printed
            assert told is None or matches(printed, told), printed
        process = PROCESS.search(printed)
        assert process is not None
        os.kill(int(process[1]), 15)
        said = [text for _, text in servers.at_honcho()]
        assert said == ["My bicycle is blue.", "Noted: My bicycle is blue."]
        (document,) = servers.at_hindsight()
        assert "My bicycle is blue." in document
