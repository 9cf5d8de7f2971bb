"""procrastinate: one lock per key, so that a key's jobs run one at a time and in order."""

import asyncio
import time

from procrastinate import App, PsycopgConnector

from bench.usage import cpu_s
from bench.work import Task, latencies

POLL_S = 0.1  # beside its notifications; its default of 5 s shows when one is missed


class Counted:
    """When each job ran, and who waits for all of them."""

    def __init__(self, expected: int) -> None:
        self.at: dict[str, list[tuple[int, float]]] = {}
        self._left = expected
        self.all = asyncio.Event()

    def ran(self, key: str, n: int) -> None:
        self.at.setdefault(key, []).append((n, time.perf_counter()))
        self._left -= 1
        if not self._left:
            self.all.set()


async def measure(task: Task) -> dict[str, float]:
    keys, jobs = task.load.conversations, task.option("jobs")
    app = App(connector=PsycopgConnector(conninfo=task.option("address"), max_size=20))
    counted = Counted(keys)

    @app.task(name="job")
    async def job(key: str, n: int) -> None:
        counted.ran(key, n)

    async def produce(prefix: str, key: int, each: int) -> list[float]:
        began = []
        for n in range(each):
            began.append(time.perf_counter())
            await job.configure(lock=f"{prefix}{key}").defer_async(key=f"{prefix}{key}", n=n)
        return began

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        working = asyncio.create_task(
            app.run_worker_async(concurrency=keys, fetch_job_polling_interval=POLL_S, install_signal_handlers=False)
        )
        await asyncio.gather(*(produce("warm", key, 1) for key in range(keys)))
        await counted.all.wait()
        counted = Counted(jobs // keys * keys)
        cpu, started = cpu_s(), time.perf_counter()
        began = await asyncio.gather(*(produce("key", key, jobs // keys) for key in range(keys)))
        await counted.all.wait()
        wall, cpu = time.perf_counter() - started, cpu_s() - cpu
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    ended = [counted.at[f"key{key}"] for key in range(keys)]
    took = [
        at - since for ran, times in zip(ended, began, strict=True) for (_, at), since in zip(ran, times, strict=True)
    ]
    in_order = all([n for n, _ in ran] == list(range(jobs // keys)) for ran in ended)
    return {**latencies(took, wall, cpu), "in_order": float(in_order)}
