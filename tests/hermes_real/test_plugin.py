"""The plugin inside the real Hermes: installed by the command, called by Hermes' own manager, killed at random."""

import asyncio
import json
import os
import random
import sys
from collections import Counter

import pytest

from holdfast.hermes.plugin import client
from tests.support.hermes_service import make_home, memory_servers

pytestmark = [pytest.mark.hermes, pytest.mark.timeout(600)]

# A turn as Hermes 0.19.0 ends it: the manager queues it, the boundary comes inline, and the process leaves at once.
MANAGED = """
import os, sys
home = sys.argv[1]
os.environ["HERMES_HOME"] = home
from agent.memory_manager import MemoryManager
from plugins.memory import load_memory_provider
manager = MemoryManager()
manager.add_provider(load_memory_provider("holdfast"))
manager.initialize_all(session_id="A", platform="cli", hermes_home=home, agent_context="primary")
for line in sys.stdin:
    session, text = line.split(None, 1)
    manager.on_turn_start(1, text)
    manager.sync_all(text.strip(), "answer", session_id=session)
    manager.queue_prefetch_all(text, session_id=session)
    manager.on_session_end([])
    manager.on_session_switch(session, parent_session_id=session)
    manager.flush_pending(10)
    print(session, text, end="", flush=True)
os._exit(0)
"""
TIMED = """
import os, statistics, sys, time
os.environ["HERMES_HOME"] = sys.argv[1]
from plugins.memory import load_memory_provider
memory = load_memory_provider("holdfast")
memory.initialize("A", hermes_home=sys.argv[1], agent_context="primary")
took = []
for n in range(300):
    began = time.perf_counter()
    memory.sync_turn(f"turn {n} " + "word " * 50, "answer " * 100, session_id="A")
    took.append((time.perf_counter() - began) * 1000)
print(statistics.median(took), flush=True)
os._exit(0)
"""


async def run(*command, environment=None, stdin=b""):
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment or dict(os.environ),
    )
    output, _ = await process.communicate(stdin)
    return process.returncode, output.decode()


def clean(home):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "HERMES_HOME": str(home.path), "HOME": str(home.path)}


async def holdfast(*arguments):
    return await run(sys.executable, "-m", "holdfast", "hermes", *arguments)


async def started(home):
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "hermes", "serve", str(home.path), "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    assert await server.stdout.readline()
    return server


async def settle(home):
    is_settled = False
    while not is_settled:
        question = {"op": "settled", "budget_ms": 8_000}
        answer = await asyncio.to_thread(client.ask, home.path, question, 60.0)
        is_settled = answer is not None and bool(answer.get("settled"))


async def test_the_status_of_hermes_is_true(hermes_python, tmp_path):
    home = make_home(tmp_path / "home")
    code, told = await holdfast("install", home.path, "--python", hermes_python, "--no-start")
    assert code == 0, told
    hermes = (hermes_python, "-m", "hermes_cli.main", "memory", "status")
    _, told = await run(*hermes, environment=clean(home))
    assert "available ✓" in told
    assert "stopped: turns are stored and wait" in told
    server = await started(home)
    _, told = await run(*hermes, environment=clean(home))
    assert "delivery: running" in told
    assert "waiting_in_spool: 0" in told
    server.terminate()
    assert await server.wait() == 0
    assert (await holdfast("uninstall", home.path))[0] == 0
    _, told = await run(*hermes, environment=clean(home))
    assert "built-in only" in told


async def test_every_turn_of_the_manager_arrives_though_hermes_and_the_process_are_killed(hermes_python, tmp_path):
    chance = random.Random(19)
    async with memory_servers() as servers:
        home = make_home(tmp_path / "home", servers)
        assert (await holdfast("install", home.path, "--python", hermes_python, "--no-start"))[0] == 0
        acknowledged: list[str] = []
        for life in range(3):
            hermes = await asyncio.create_subprocess_exec(
                *(str(hermes_python), "-c", MANAGED, str(home.path)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=clean(home),
            )
            server = await started(home)
            assert hermes.stdin is not None
            assert hermes.stdout is not None
            count = chance.randint(3, 8)
            hermes.stdin.writelines(f"S{n % 2} turn {life}.{n} of S{n % 2}\n".encode() for n in range(count))
            acknowledged += [(await hermes.stdout.readline()).decode() for _ in range(chance.randint(1, count))]
            hermes.kill()
            acknowledged += [line.decode() async for line in hermes.stdout if line.endswith(b"\n")]
            server.kill()
            await asyncio.gather(hermes.wait(), server.wait())
        server = await started(home)
        await settle(home)
        server.terminate()
        await server.wait()
        texts = [line.strip().partition(" ")[2] for line in acknowledged]
        said = Counter(text for _, text in servers.at_honcho())
        assert {text: said[text] for text in texts} == dict.fromkeys(texts, 1)
        for text in texts:
            assert sum(text in document for document in servers.at_hindsight()) == 1
        assert max(count for text, count in said.items() if text != "answer") == 1


async def test_a_turn_is_durable_within_milliseconds(hermes_python, tmp_path):
    home = make_home(tmp_path / "home")
    assert (await holdfast("install", home.path, "--python", hermes_python, "--no-start"))[0] == 0
    _, told = await run(hermes_python, "-c", TIMED, home.path, environment=clean(home))
    print(json.dumps({"sync_turn_median_ms": float(told)}))  # noqa: T201 - shown with -s
    assert float(told) < 50, "a slow disk under load; typical is below 2"
