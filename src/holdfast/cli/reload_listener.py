"""The serving process's side of `holdfast reload` and of SIGHUP.

Rule 1: from its start to its end the process survives SIGHUP. A signal during the start is answered once it serves, and
        one while it stops is ignored.
Rule 2: SIGHUP without a request means a reload too, unless the process had a terminal and has lost it. Then it stops as
        on SIGTERM; one that was started by `nohup` goes on.
Rule 3: one reload runs at a time. Signals that arrive during it lead to one more.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.errors import InternalError
from holdfast.api.shapes.error_report import error_view
from holdfast.audit.action import ActorKind, By
from holdfast.audit.actor import acting_as
from holdfast.cli.reload_files import (
    ReloadAnswer,
    ReloadRequest,
    clear,
    has_request,
    set_ready,
    take_requests,
    write_answer,
)
from holdfast.cli.terminal import has_terminal, ignores_hangups
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ports import Tasks

if TYPE_CHECKING:
    from holdfast.runtime.reloading import ReloadReport

BY_SIGNAL = By(kind=ActorKind.SYSTEM, id="signal", origin="SIGHUP")
Reload = Callable[[], "Awaitable[ReloadReport]"]


class ReloadListener:
    def __init__(self, folder: Path, end: Callable[[], None]) -> None:
        """`end` stops the process after its terminal was lost."""
        self._folder = folder
        self._end = end
        self._had_terminal = has_terminal()
        self._is_kept = ignores_hangups()
        self._is_asked = self._is_running = False
        self._reload: Reload | None = None
        self._tasks: Tasks | None = None

    def hear(self) -> None:
        """A SIGHUP arrived."""
        if self._had_terminal and not has_terminal() and not has_request(self._folder):
            if not self._is_kept:
                self._end()
            return
        self._is_asked = True
        self._begin()

    @contextmanager
    def serving(self, owner: str | None, reload: Reload, tasks: Tasks) -> Iterator[None]:
        """Answer signals with `reload` inside the block."""
        clear(self._folder)
        self._reload, self._tasks = reload, tasks
        set_ready(self._folder, owner)
        self._begin()
        try:
            yield
        finally:
            self._reload = None
            clear(self._folder)

    def _begin(self) -> None:
        if self._is_asked and not self._is_running and self._tasks is not None and self._reload is not None:
            self._is_running = True
            self._tasks.start(self._run(), name="reload")

    async def _run(self) -> None:
        try:
            while self._is_asked and self._reload is not None:
                self._is_asked = False
                requests = take_requests(self._folder)
                with acting_as(_actor(requests)):
                    answer = await self._answered(self._reload)
                for one in requests:
                    write_answer(self._folder, one.id, answer)
        finally:
            self._is_running = False

    async def _answered(self, reload: Reload) -> ReloadAnswer:
        try:
            report = await reload()
        except Exception as error:  # noqa: BLE001 - a reload that fails leaves the process serving
            log.error("loop.failed", failure=error, loop="reload")
            known = error if isinstance(error, HoldfastError) else InternalError(f"{type(error).__name__}: {error}")
            return ReloadAnswer(ok=False, problems=[error_view(known).error])
        return ReloadAnswer(
            ok=report.ok,
            applied=report.applied,
            restart=report.restart,
            problems=[error_view(one).error for one in report.problems],
        )


def _actor(requests: list[ReloadRequest]) -> By:
    """The user of the first request; a plain signal has no known sender."""
    if not requests:
        return BY_SIGNAL
    return By(kind=ActorKind.USER, id=requests[0].user, label=requests[0].label, origin=requests[0].origin)
