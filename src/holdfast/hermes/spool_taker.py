"""The taker: files the records of a spool in the store, each exactly once.

A record is filed in one transaction that is idempotent by the record's key, and marked in the spool afterwards. A crash
in between repeats the filing, which changes nothing. Records that no release can file are kept in `unfiled.jsonl`.

Hermes' database says which turns were undone (undone.py). The taker looks at it when the plugin was told of an undo,
and before and after it files turns of a session: Hermes' gateway tells a plugin of none.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.hermes.filing import Unfilable, apart, notes_of, session_of, turn_of
from holdfast.hermes.spool_reader import SpoolReader, SpoolRecord
from holdfast.hermes.stored_turns_sql import list_stored_turns
from holdfast.hermes.undone import undone_turns
from holdfast.hermes.undone_reader import read_exchanges
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError, Remedy, SessionNotFound
from holdfast.kernel.files import write_synced
from holdfast.kernel.ids import SessionId
from holdfast.kernel.loop import Loop
from holdfast.memory.notes import NotApplied
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.history_sql import read_session
from holdfast.turns.turn import TurnRecord

LOOK_EVERY_MS = 150
BATCH = 64
PRUNE_EVERY = 40  # rests
ASIDE = "unfiled.jsonl"
BY = "hermes"  # who undid a turn


class SpoolTaker(Loop):
    name = "spool"

    def __init__(self, runtime: Runtime, reader: SpoolReader, database: Path) -> None:
        super().__init__(runtime.tasks, runtime.entropy)
        self._runtime = runtime
        self._reader = reader
        self._database = database  # of Hermes
        self._told: set[tuple[str, int]] = set()
        self._rests = 0
        self.taken = 0  # by this process

    async def step(self) -> bool:
        waiting = await self._tasks.in_thread(self._reader.waiting)
        self._tell_damage()
        for start in range(0, len(waiting), BATCH):
            if self.stopping:
                break
            await self._take(waiting[start : start + BATCH])
        return bool(waiting)

    async def rest(self) -> None:
        self._rests += 1
        if self._rests % PRUNE_EVERY == 1:
            await self._tasks.in_thread(self._reader.prune)
        await self._tasks.sleep(LOOK_EVERY_MS)

    async def _take(self, batch: Sequence[SpoolRecord]) -> None:
        for record in batch:
            await self._file(record)
        for session in dict.fromkeys(session_of(one.content) for one in batch if one.content.get("kind") == "turn"):
            await self._undo(session)
        await self._tasks.in_thread(partial(self._reader.file, batch))
        self.taken += len(batch)
        log.info("spool.taken", records=len(batch))

    async def _file(self, record: SpoolRecord) -> None:
        try:
            match record.content.get("kind"):
                case "turn":
                    await self._undo(session_of(record.content))
                    await self._file_turn(turn_of(record.content, record.key, ()))
                case "undo":
                    await self._undo(session_of(record.content))
                case "note":
                    await self._file_note(record)
                case kind:
                    await self._keep_aside(record, f"a record of the kind {kind!r}")
        except Unfilable as error:
            await self._keep_aside(record, str(error))
        except HoldfastError as error:
            if error.remedy is not Remedy.CORRECT:
                raise  # the loop tries again: the record waits
            await self._keep_aside(record, f"{error.code}: {error}")

    async def _file_turn(self, turn: TurnRecord) -> None:
        due = replace(turn, policies=self._runtime.policies(turn.agent))
        try:
            await self._runtime.record_turn(due)
        except SessionNotFound:
            other = await self._owner_of(turn.session)
            if other is None or other == turn.agent:
                log.info("spool.dropped", session=turn.session, why="the session was deleted")
                return
            await self._runtime.record_turn(apart(due))

    async def _undo(self, session: SessionId) -> None:
        """Undo the turns that Hermes has undone. Repeating it changes nothing."""
        exchanges = await self._tasks.in_thread(partial(read_exchanges, self._database, session))
        if not exchanges:
            return
        turns = undone_turns(await self._runtime.db.read(list_stored_turns(session)), exchanges)
        if turns:
            await self._runtime.undo_recorded(session, turns, by=BY)

    async def _owner_of(self, session: SessionId) -> str | None:
        try:
            return (await self._runtime.db.read(read_session(session))).agent
        except SessionNotFound:
            return None

    async def _file_note(self, record: SpoolRecord) -> None:
        outcome = await self._runtime.apply_memory(notes_of(record.content, record.key, ()))
        if isinstance(outcome, NotApplied):
            log.warning("spool.dropped", session=str(record.content.get("session")), why=outcome.code)

    async def _keep_aside(self, record: SpoolRecord, why: str) -> None:
        log.warning("spool.unfiled", segment=record.segment.name, why=why)
        file = self._reader.folder.parent / ASIDE
        await self._tasks.in_thread(partial(_append, file, {"why": why, "record": record.content}))

    def _tell_damage(self) -> None:
        for segment, offset in sorted(self._reader.damaged - self._told):
            log.error("spool.damaged", segment=segment, offset=offset)
        self._told |= self._reader.damaged


def _append(file: Path, line: dict[str, Any]) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write_synced(handle, json.dumps(line).encode() + b"\n")
