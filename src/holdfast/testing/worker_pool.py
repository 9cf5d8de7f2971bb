"""Worker processes of a campaign, which never outlive it.

A worker ends as soon as the process that started it is gone, however that ended. If the campaign is stopped, its
workers are terminated at once: a mutant may take minutes, and nobody waits for its verdict. The temporary folders of
all workers are inside one folder of the campaign, which removes it.
"""

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """A pool of processes; with one job everything runs in this process, which is easier to debug."""

    def __init__(self, jobs: int | None) -> None:
        self._jobs = jobs or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        if self._jobs > 1:
            self._folder = tempfile.TemporaryDirectory(prefix="holdfast-sim-", ignore_cleanup_errors=True)
            # Spawned on every platform: a forked process would inherit the state of this one.
            self._pool = ProcessPoolExecutor(
                self._jobs, mp_context=get_context("spawn"), initializer=begin_worker, initargs=(self._folder.name,)
            )
        return self

    def spread(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The results, in the order in which they become available."""
        if self._pool is None:
            yield from map(work, items)
            return
        for done in as_completed([self._pool.submit(work, item) for item in items]):
            yield done.result()

    def __exit__(self, stopped_by: type[BaseException] | None, *_: object) -> None:
        if self._pool is None or self._folder is None:
            return
        if stopped_by is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                worker.kill()
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()


def begin_worker(folder: str) -> None:
    """Prepare a worker process. Ctrl-C reaches all processes of a terminal; the campaign decides what it means."""
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tempfile.tempdir = folder
    Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
