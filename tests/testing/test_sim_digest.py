"""I18: the same seed gives the same digest, in any process and under any PYTHONHASHSEED."""

import os
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
HISTORY = """
import asyncio, sys
from holdfast.testing import SeededEntropy, SimLoop, SimNode, SimTasks

def history(seed):
    with SimLoop(seed) as loop:
        nodes = [SimNode(loop, name) for name in ("a", "b")]
        entropy = SeededEntropy(f"{seed}/world")

        async def fail():
            await asyncio.sleep(entropy.fraction())
            raise LookupError

        async def nap(n):
            try:
                await asyncio.sleep(entropy.fraction() * 3)
            finally:
                loop.note("nap over", n)

        async def work(node):
            tasks = SimTasks(loop, node)
            while True:
                try:
                    async with asyncio.TaskGroup() as group:
                        for n in range(7):
                            group.create_task(nap(n))
                        group.create_task(fail())
                except* LookupError:
                    loop.note(node.name, "group failed")
                done, _ = await asyncio.wait({asyncio.create_task(nap(n)) for n in range(7)}, timeout=2)
                for task in done:
                    loop.note(node.name, task.get_name())
                loop.note(await tasks.in_thread(lambda: entropy.bits(32)))

        async def main():
            for node in nodes:
                node.start(work(node), name="work")
            loop.at_step(200, nodes[0].pause)
            loop.at_step(400, nodes[0].thaw)
            loop.at_step(900, nodes[1].kill)
            await asyncio.sleep(120)

        loop.run_until_complete(main())
        return loop.digest()

print(*(history(int(seed)) for seed in sys.argv[1:]))
"""


def digests(hash_seed, *seeds):
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-W", "error", "-c", HISTORY, *map(str, seeds)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_digest_depends_on_the_seed_alone():
    first, *others = [digests(hash_seed, 1, 2, 3) for hash_seed in ("0", "1", "4242", "random")]
    assert len(set(first)) == 3
    assert all(other == first for other in others)
