"""The work that is measured, and the contestants that do it.

One operation: record one user+assistant turn durably, then read the context of that session (its summary and about
fifty entries after it). A contestant is prepared with sessions of a given history and then asked for operations.
"""

import asyncio
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import aiosqlite

from holdfast.kernel.ids import NodeId, OperationId, Principal, SessionId
from holdfast.kernel.machine import SystemClock
from holdfast.sessions.compression import COMPRESS, Operation, SummaryDraft
from holdfast.sessions.summary_sql import begin_operation, commit_summary
from holdfast.store.node_sql import register_node
from holdfast.store.sqlite.writer import ThreadedDatabase
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.journal import AssistantSaid, UserSaid
from holdfast.turns.record_sql import record_turn
from holdfast.turns.turn import TurnRecord

USER_TEXT = "What did we decide about the harbour project and who takes the next step? " * 4
ASSISTANT_TEXT = "We agreed that the survey comes first and that the report is due on Friday. " * 11
SUMMARY_TEXT = "- facts: the user works on the harbour project\n" * 20
TAIL = 50
BULK = 100


class Contestant(ABC):
    name: str

    @abstractmethod
    async def open(self, folder: Path) -> None: ...

    @abstractmethod
    async def prepare(self, session: str, messages: int) -> None:
        """A session with `messages` earlier messages, all but the last fifty behind a summary."""

    @abstractmethod
    async def operate(self, session: str, n: int) -> int:
        """One operation; how many entries the context had."""

    @abstractmethod
    async def close(self) -> None: ...


class Holdfast(Contestant):
    name = "holdfast"

    async def open(self, folder: Path) -> None:
        self._db = ThreadedDatabase.open(folder / "holdfast.db", SystemClock())
        self._contexts = ContextCache(self._db)
        await self._db.write(register_node(NodeId("bench"), "bench", sole=True))

    async def prepare(self, session: str, messages: int) -> None:
        ident = SessionId(session)
        covered = max(0, messages - TAIL)
        for start in range(0, messages, BULK):
            await self._record(ident, f"bulk{start}", min(BULK, messages - start) // 2)
        if covered:
            begun = await self._db.write(begin_operation(OperationId(f"op{session}"), COMPRESS, ident, NodeId("bench")))
            assert isinstance(begun, Operation)
            draft = SummaryDraft(
                base_n=0,
                undo_count=0,
                covers_from=1,
                covers_through=covered,
                head_seq=messages,
                text=SUMMARY_TEXT,
                model="bench",
            )
            await self._db.write(commit_summary(begun, draft))

    async def _record(self, session: SessionId, key: str, pairs: int) -> None:
        said = (UserSaid(text=USER_TEXT, principal="user"), AssistantSaid(text=ASSISTANT_TEXT))
        record = TurnRecord(
            session=session, agent="main", key=key, entries=said * pairs, principal=Principal("user"), place="bench"
        )
        await self._db.write(record_turn(record))

    async def operate(self, session: str, n: int) -> int:
        await self._record(SessionId(session), f"turn{n}", 1)
        return len((await self._contexts.read(SessionId(session))).entries)

    async def close(self) -> None:
        await self._db.close()


class PlainAiosqlite(Contestant):
    """What a careful application would write by hand: one transaction per turn, the same durability."""

    name = "aiosqlite"

    async def open(self, folder: Path) -> None:
        self._db = await aiosqlite.connect(folder / "plain.db", isolation_level=None)
        for pragma in ("synchronous = extra", "journal_mode = wal"):
            await self._db.execute(f"pragma {pragma}")
        await self._db.executescript("""
            create table session (id text primary key, last_seq integer, turns integer);
            create table entry (session text, seq integer, role text, body text, unique (session, seq));
            create table turn (session text, key text, n integer, primary key (session, key));
            create table summary (session text, n integer, covers_through integer, body text, primary key (session, n));
            """)
        self._lock = asyncio.Lock()

    async def prepare(self, session: str, messages: int) -> None:
        rows = [
            (session, seq, "user" if seq % 2 else "assistant", USER_TEXT if seq % 2 else ASSISTANT_TEXT)
            for seq in range(1, messages + 1)
        ]
        await self._db.execute("begin immediate")
        await self._db.executemany("insert into entry values (?, ?, ?, ?)", rows)
        await self._db.execute("insert into session values (?, ?, ?)", (session, messages, messages // 2))
        covered = (session, 1, max(0, messages - TAIL), SUMMARY_TEXT)
        await self._db.execute("insert into summary values (?, ?, ?, ?)", covered)
        await self._db.execute("commit")

    async def operate(self, session: str, n: int) -> int:
        async with self._lock:  # one connection, so one transaction at a time
            await self._db.execute("begin immediate")
            known = await self._one("select n from turn where session = ? and key = ?", (session, f"turn{n}"))
            assert known is None
            last, turns = await self._one("select last_seq, turns from session where id = ?", (session,))
            rows = [(session, last + 1, "user", USER_TEXT), (session, last + 2, "assistant", ASSISTANT_TEXT)]
            await self._db.executemany("insert into entry values (?, ?, ?, ?)", rows)
            await self._db.execute("insert into turn values (?, ?, ?)", (session, f"turn{n}", turns + 1))
            moved = (last + 2, turns + 1, session)
            await self._db.execute("update session set last_seq = ?, turns = ? where id = ?", moved)
            await self._db.execute("commit")
        covers, _body = await self._one(
            "select covers_through, body from summary where session = ? order by n desc limit 1", (session,)
        )
        tail = await self._db.execute_fetchall(
            "select seq, role, body from entry where session = ? and seq > ? order by seq", (session, covers)
        )
        return len(list(tail))

    async def _one(self, sql: str, values: tuple[object, ...]) -> Any:  # noqa: ANN401
        async with self._db.execute(sql, values) as found:
            return await found.fetchone()

    async def close(self) -> None:
        await self._db.close()
