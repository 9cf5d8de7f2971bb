"""DBOS: a queue with one partition per key, one workflow of a partition at a time."""

import asyncio
import time

from dbos import DBOS, SetEnqueueOptions

from bench.usage import cpu_s
from bench.work import Task, latencies

QUEUE = "bench"
POLL_S = 0.01  # at its default of 1 s, a partition gets one job a second
done: dict[str, list[int]] = {}


@DBOS.workflow()
async def job(key: str, n: int) -> int:
    done.setdefault(key, []).append(n)
    return n


async def measure(task: Task) -> dict[str, float]:
    keys, jobs = task.load.conversations, task.option("jobs")
    address = str(task.option("address")).replace("postgresql://", "postgresql+psycopg://", 1)
    DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})
    DBOS.launch()
    await DBOS.register_queue_async(QUEUE, partition_concurrency=1, polling_interval_sec=POLL_S)

    async def produce(prefix: str, key: int, each: int) -> list[float]:
        handles, began, ended = [], [], []
        for n in range(each):
            began.append(time.perf_counter())
            with SetEnqueueOptions(queue_partition_key=f"{prefix}{key}"):
                handles.append(await DBOS.enqueue_workflow_async(QUEUE, job, f"{prefix}{key}", n))
        for handle in handles:
            await handle.get_result(polling_interval_sec=POLL_S)
            ended.append(time.perf_counter())
        return [end - begin for begin, end in zip(began, ended, strict=True)]

    await asyncio.gather(*(produce("warm", key, 1) for key in range(keys)))
    cpu, started = cpu_s(), time.perf_counter()
    took = await asyncio.gather(*(produce("key", key, jobs // keys) for key in range(keys)))
    figures = latencies([one for each in took for one in each], time.perf_counter() - started, cpu_s() - cpu)
    in_order = all(done[f"key{key}"] == list(range(jobs // keys)) for key in range(keys))
    DBOS.destroy()
    return {**figures, "in_order": float(in_order)}
