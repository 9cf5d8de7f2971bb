"""The provider of the memory files: delivering a note updates the file to the current notes.

Every attempt has the same effect, so an outcome is never uncertain. A file that needs a person's attention refuses the
note; the store holds the note all the same, and the file catches up once the person has repaired it.

A folder has one writer at a time: a lock file excludes other processes, and the wait for it is bounded.

`make_files` makes the provider from the table [agents.NAME.memory.files] of holdfast.toml.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from filelock import FileLock, Timeout
from msgspec import Meta, Struct

from holdfast.kernel.errors import ProviderFailed
from holdfast.kernel.files import make_private_folder, why_unusable
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ports import Tasks
from holdfast.kernel.settings_table import read_table
from holdfast.memory.delivery import Delivered, Erasure, Landing, Op, Outcome, Parcel, PerSession, Refused, Unreachable
from holdfast.memory.files.disk import Disk, FileFault
from holdfast.memory.files.projection import Projection, load_state
from holdfast.memory.notes import Capacity, NotesPort, Target
from holdfast.memory.notes_text import FILE_NAMES
from holdfast.memory.provider import Capabilities, Configured, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.memory.visibility import CHAT, SESSION, SHARED, person_scope

DELIVERED_MEANS = "the agent's files on this machine show it, written to disk"
LOCK_TRIES_MAX, LOCK_WAIT_MS = 50, 100
SOUL = "SOUL.md"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)\Z")  # device names on Windows, with any suffix


@dataclass(frozen=True, slots=True)
class EditResult:
    """The result for an edited file: its edit was stored, or `fault` says why not."""

    file: str
    fault: str | None = None


class FilesProvider:
    """Implements `Provider`. Call `attach` before the first delivery."""

    capabilities = Capabilities(
        renderer="files/1",
        turns=False,
        recalls=False,
        units_per_lane=64,
        quiet_ms=0,
        delivered_means=DELIVERED_MEANS,
    )

    def __init__(
        self,
        folder: Path,
        tasks: Tasks,
        *,
        agent: AgentName,
        capacity: Capacity | None = None,
        per_user: bool = True,
        disk: Disk | None = None,
    ) -> None:
        self.agent = agent
        self.capacity = capacity or Capacity()
        self.per_user = per_user
        self._disk = disk or Disk(folder)
        self._tasks = tasks
        self._lock = FileLock(folder / ".lock", thread_local=False, mode=0o600)
        self._task_lock = asyncio.Lock()  # a file lock does not separate two tasks of one process
        self._projection: Projection | None = None

    def attach(self, notes: NotesPort) -> None:
        self._projection = Projection(self._disk, notes, self._tasks, agent=self.agent, capacity=self.capacity)

    # --- delivering

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        done: dict[tuple[str, Op, str, str], Outcome] = {}
        failed: dict[str, str] = {}
        outcomes: list[Outcome] = []
        for parcel in parcels:
            if parcel.place in failed:
                outcomes.append(Unreachable(f"it waits for an earlier note that failed: {failed[parcel.place]}"))
                continue
            note = parcel.note
            # A file shows all notes, so one update serves all parcels of the same file.
            key = (parcel.place, parcel.op, note.subject if note else "", note.target if note else parcel.id)
            if key not in done:
                done[key] = await self._deliver_one(parcel)
            outcome = done[key]
            if isinstance(outcome, Refused | Unreachable):
                failed[parcel.place] = outcome.reason
            outcomes.append(outcome)
        return outcomes

    async def _deliver_one(self, parcel: Parcel) -> Outcome:
        try:
            if parcel.op is Op.ERASE and parcel.erasure is not None:
                return await self._erase(parcel.erasure)
            if parcel.op is not Op.REMEMBER or parcel.note is None:
                return Refused("the memory files accept only notes")
            return await self._show(parcel.note.subject, Target(parcel.note.target))
        except FileFault as fault:
            return Refused(fault.reason) if fault.lasting else Unreachable(fault.reason)

    async def _show(self, subject: str, target: Target) -> Outcome:
        path = self._path(subject, target)
        if path is None:
            return Delivered("stored; these notes have no file")
        async with self._locked():
            await self._files().bring_up_to_date(path, subject, target)
        return Delivered(self._disk.name(path))

    async def _erase(self, erasure: Erasure) -> Outcome:
        """Delete a person's own files; rewrite other files from the remaining notes."""
        if erasure.principal is None and not erasure.scopes:
            return Delivered("the files hold no turns of a session")
        own = SHARED if erasure.principal is None else person_scope(erasure.principal)
        projection = self._files()
        async with self._locked():
            for subject in sorted({SHARED, own, *erasure.scopes}):
                for target in Target:
                    path = self._path(subject, target)
                    if path is None:
                        continue
                    if subject != own or own == SHARED:
                        await projection.bring_up_to_date(path, subject, target)
                    await self._tasks.in_thread(partial(projection.forget, path, whole=subject == own != SHARED))
        return Delivered("erased")

    async def landed(self, parcel: Parcel) -> Landing:
        if parcel.note is None:
            return Landing.ABSENT
        path = self._path(parcel.note.subject, Target(parcel.note.target))
        if path is None:
            return Landing.LANDED
        try:
            shown = await self._tasks.in_thread(lambda: self._head(path))
        except FileFault:
            return Landing.POSSIBLE
        return Landing.LANDED if shown >= parcel.note.seq else Landing.ABSENT

    def _head(self, path: Path) -> int:
        """The newest operation that the file in its present state is known to show."""
        found, state = self._disk.read(path), load_state(self._disk, path)
        current = state.current
        return current.head if found and current and found.digest == current.digest else 0

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        del query  # the instructions already contain the files
        return ()

    async def healthy(self) -> str | None:
        try:
            return await self._tasks.in_thread(self._refused_edit)
        except FileFault as fault:
            return fault.reason

    def _refused_edit(self) -> str | None:
        for target in Target:
            path = self._disk.root / FILE_NAMES[target]
            found = self._disk.read(path)
            if found is not None and found.digest == load_state(self._disk, path).refused:
                return f"{path.name} holds an edit that cannot be stored; correct it"
        return None

    async def close(self) -> None:
        """No resource is held between calls."""

    # --- people's edits

    async def notice_edits(self, agent: AgentName, subjects: Collection[str]) -> tuple[EditResult, ...]:
        """Store hand edits as operations. One result per edited or unusable file; cheap if there is none."""
        del agent  # one provider per agent
        files = {
            path: (subject, target)
            for subject in dict.fromkeys([SHARED, *subjects])
            for target in Target
            if (path := self._path(subject, target)) is not None
        }
        try:
            changed = await self._files().unsettled(list(files))
        except FileFault as fault:
            return (EditResult("", fault.reason),)
        found = [await self._absorb_edit(path, *files[path]) for path in changed]
        return tuple(noticed for noticed in found if noticed is not None)

    async def _absorb_edit(self, path: Path, subject: str, target: Target) -> EditResult | None:
        projection = self._files()
        try:
            async with self._locked():
                absorbed = await projection.bring_up_to_date(path, subject, target)
        except FileFault as fault:
            return EditResult(self._disk.name(path), fault.reason)
        return EditResult(self._disk.name(path)) if absorbed else None

    async def soul(self) -> str | None:
        """SOUL.md, which only people write. Raises `ProviderFailed` if it exists and cannot be read."""
        path = self._disk.root / SOUL
        try:
            found = await self._tasks.in_thread(lambda: self._disk.read(path))
            return None if found is None else self._disk.text(path, found).removeprefix("\ufeff")
        except FileFault as fault:
            raise ProviderFailed(fault.reason) from fault

    # --- inside

    def _path(self, subject: str, target: Target) -> Path | None:
        if subject == SHARED:
            return self._disk.root / FILE_NAMES[target]
        if not self.per_user or subject.startswith(SESSION):
            return None
        is_chat = subject.startswith(CHAT)
        folder = self._disk.root / ("chats" if is_chat else "users") / folder_name(subject.removeprefix(CHAT))
        return folder / FILE_NAMES[target]

    def _files(self) -> Projection:
        if self._projection is None:
            raise FileFault("the files are not attached to the notes yet", lasting=False)
        return self._projection

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Exclude the other tasks of this process, and other processes."""
        async with self._task_lock:
            await self._take_lock()
            try:
                yield
            finally:
                self._lock.release()

    async def _take_lock(self) -> None:
        """Try without blocking and sleep between tries, so that a cancelled caller leaves no lock behind."""
        try:
            make_private_folder(self._disk.root)
            for _ in range(LOCK_TRIES_MAX):
                with suppress(Timeout):
                    self._lock.acquire(blocking=False)
                    return
                await self._tasks.sleep(LOCK_WAIT_MS)
        except OSError as error:
            why = why_unusable(error)
            raise FileFault(f"the folder of the memory files cannot be used ({why})", lasting=False) from error
        raise FileFault("another process is using the memory files", lasting=False)


def folder_name(subject: str) -> str:
    """A folder for a person or a chat: unique on every file system, and never a path to another folder."""
    if _PLAIN.match(subject) and not _RESERVED.match(subject):
        return subject
    readable = re.sub(r"[^a-z0-9]+", "-", subject.casefold())[:40].strip("-")
    return f"{readable}~{sha256(subject.encode()).hexdigest()[:24]}"


Chars = Annotated[int, Meta(ge=100, le=100_000)]


class FilesSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    per_user: bool = True  # also files for each person and each chat, in users/ and chats/
    memory_chars: Chars = Capacity().memory_chars
    user_chars: Chars = Capacity().user_chars


def make_files(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`. Touches no file."""
    settings = read_table("files", setup.settings, FilesSettings)
    capacity = Capacity(memory_chars=settings.memory_chars, user_chars=settings.user_chars)
    provider = FilesProvider(
        setup.folder, setup.tasks, agent=setup.agent, capacity=capacity, per_user=settings.per_user
    )
    return Configured(provider, PerSession())
