"""What Holdfast costs at rest: recovery after a kill, memory of idle sessions, time to import.

    python -m bench.ours.footprint FOLDER

as a program answers messages until it is killed, and prints a line after the first answer.
"""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import holdfast
from bench import texts
from bench.ours.conversations import RECORD_TURNS, SAID, Answers, Holdfast, Instant
from bench.usage import resident_kb
from bench.work import Task, in_parallel

ANSWERED = b"answered\n"
BUSY_S = 0.5
TIMES = 5


class Sessions(Holdfast):
    async def prepare(self, names: Sequence[str], messages: int) -> None:
        del names
        sessions, pairs = self.task.option("sessions"), messages // 2

        async def record(name: str) -> None:
            for turn in range(0, pairs, RECORD_TURNS):
                await self.record(name, f"t{turn}", SAID * min(RECORD_TURNS, pairs - turn), "user")

        await in_parallel(record(f"session{number}") for number in range(sessions))

    async def turn(self, name: str, n: int) -> None:
        """Nothing is measured in this process."""


async def recovery(task: Task) -> dict[str, float]:
    """Kill a process that answers messages; the time from the next process's start to its first answer."""
    if task.step == "prepare":
        sessions = Sessions(task)
        await sessions.open()
        await sessions.prepare((), task.load.history)
        await sessions.close()
        return {}
    await _until_answered(task.folder, busy_s=BUSY_S)
    return {"first_answer_s": await _until_answered(task.folder)}


async def _until_answered(folder: Path, busy_s: float = 0.0) -> float:
    began = time.perf_counter()
    command = (sys.executable, "-m", "bench.ours.footprint", str(folder))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == ANSWERED
    took = time.perf_counter() - began
    await asyncio.sleep(busy_s)
    process.kill()
    await process.wait()
    return took


async def answer(folder: Path) -> None:
    async with holdfast.open(folder, model=Instant(), policy=holdfast.AgentPolicy(memory={})) as runtime:
        await runtime.ask("first", texts.message(0))
        sys.stdout.buffer.write(ANSWERED)
        sys.stdout.flush()

        async def talk(chat: str) -> None:
            while True:
                await runtime.ask(chat, texts.message(1))

        await asyncio.gather(*(talk(f"chat{number}") for number in range(64)))


async def idle_sessions(task: Task) -> dict[str, float]:
    """Growth of resident memory from the first chats that were answered once to many more."""
    few, many = task.option("few"), task.option("many")
    answers = Answers(task)
    await answers.open()
    sizes = []
    for start, end in ((0, few), (few, many)):
        await in_parallel(answers.turn(f"chat{number}", 0) for number in range(start, end))
        gc.collect()
        sizes.append(resident_kb())
    await answers.close()
    return {"bytes_per_session": max(0, sizes[1] - sizes[0]) * 1_024 / (many - few), "resident_mb": sizes[1] / 1_024}


async def startup(task: Task) -> dict[str, float]:
    """Seconds to import the package and to print the help, without those of Python itself; the fastest of a few."""
    del task
    bare = _fastest([sys.executable, "-c", "pass"])
    return {
        "import_s": max(0.0, _fastest([sys.executable, "-c", "import holdfast"]) - bare),
        "help_s": _fastest([sys.executable, "-m", "holdfast", "--help"]),
    }


def _fastest(command: list[str]) -> float:
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - began)
    return min(took)


if __name__ == "__main__":
    asyncio.run(answer(Path(sys.argv[1])))
