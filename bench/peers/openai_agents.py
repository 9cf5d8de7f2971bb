"""openai-agents: its SQLite sessions alone, and its Runner with SQLiteSession."""

import json
import sqlite3
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from agents import Agent, Runner, set_tracing_disabled
from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession
from agents.items import ModelResponse
from agents.memory import SessionSettings
from agents.memory.sqlite_session import SQLiteSession
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from sqlalchemy.ext.asyncio import create_async_engine

from bench import texts
from bench.work import Conversations

PAIR = [{"role": "user", "content": texts.USER}, {"role": "assistant", "content": texts.ASSISTANT}]


def fill(path: Path, names: Sequence[str], messages: list[dict[str, str]]) -> None:
    """Write earlier messages in its own layout, many at a time."""
    SQLiteSession("layout", path).close()
    with closing(sqlite3.connect(path)) as db, db:
        for name in names:
            db.execute("insert into agent_sessions (session_id) values (?)", (name,))
            rows = ((name, json.dumps(said)) for said in messages)
            db.executemany("insert into agent_messages (session_id, message_data) values (?, ?)", rows)


class Sqlite(Conversations):
    async def open(self) -> None:
        self._path = self.folder / "sessions.db"
        self._open: dict[str, SQLiteSession] = {}

    def session(self, name: str) -> SQLiteSession:
        if name not in self._open:
            settings = SessionSettings(limit=texts.TAIL)
            self._open[name] = SQLiteSession(name, self._path, session_settings=settings)
        return self._open[name]

    async def meet(self, name: str) -> None:
        await self.session(name).get_items(limit=1)

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        fill(self._path, names, PAIR * (messages // 2))

    async def turn(self, name: str, n: int) -> None:
        del n
        session = self.session(name)
        await session.add_items(PAIR)
        assert await session.get_items(limit=texts.TAIL)

    async def close(self) -> None:
        for session in self._open.values():
            session.close()


class SqlAlchemy(Conversations):
    async def open(self) -> None:
        self._engine = create_async_engine(f"sqlite+aiosqlite:///{self.folder / 'sessions.db'}")
        self._open: dict[str, SQLAlchemySession] = {}

    def session(self, name: str) -> SQLAlchemySession:
        if name not in self._open:
            self._open[name] = SQLAlchemySession(name, engine=self._engine, create_tables=True)
        return self._open[name]

    async def meet(self, name: str) -> None:
        await self.session(name).get_items(limit=1)

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        for name in names:
            await self.session(name).add_items(PAIR * (messages // 2))

    async def turn(self, name: str, n: int) -> None:
        del n
        session = self.session(name)
        await session.add_items(PAIR)
        assert await session.get_items(limit=texts.TAIL)

    async def close(self) -> None:
        await self._engine.dispose()


class Instant(Model):
    """Gives one answer at once."""

    async def get_response(self, *arguments: Any, **named: Any) -> ModelResponse:  # noqa: ANN401
        del arguments, named
        said = ResponseOutputText(type="output_text", text=texts.ANSWER, annotations=[])
        answer = ResponseOutputMessage(
            id=uuid.uuid4().hex, type="message", role="assistant", status="completed", content=[said]
        )
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        raise NotImplementedError


class Answers(Sqlite):
    """The Runner with an agent, and SQLiteSession with the last messages as context."""

    async def open(self) -> None:
        await super().open()
        set_tracing_disabled(True)
        self._agent = Agent(name="bench", instructions=texts.INSTRUCTIONS, model=Instant())

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        roles = ("user", "assistant")
        fill(self._path, names, [{"role": roles[n % 2], "content": texts.message(n)} for n in range(messages)])

    async def turn(self, name: str, n: int) -> None:
        found = await Runner.run(self._agent, texts.message(n), session=self.session(name))
        assert found.final_output == texts.ANSWER
