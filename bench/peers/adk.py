"""google-adk: DatabaseSessionService on SQLite alone, and a Runner with it."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.schemas.v1 import StorageEvent
from google.genai.types import Content, Part
from sqlalchemy import insert

from bench import texts
from bench.work import Conversations

APP, USER = "bench", "user"
RECENT = GetSessionConfig(num_recent_events=texts.TAIL)
BUSY_S = 60  # its default of five seconds fails with 64 writers


def content(role: str, text: str) -> Content:
    return Content(role=role, parts=[Part(text=text)])


class Sessions(Conversations):
    """Two events are appended to the session that was read; then the last events are read."""

    async def open(self) -> None:
        self.service = DatabaseSessionService(
            f"sqlite+aiosqlite:///{self.folder / 'sessions.db'}", connect_args={"timeout": BUSY_S}
        )
        logging.getLogger("google_adk").setLevel(logging.ERROR)  # it warns about tokens that were not counted
        self._known: dict[str, Any] = {}

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        await self.fill(names, messages, lambda n: texts.USER if n % 2 == 0 else texts.ASSISTANT)

    async def fill(self, names: Sequence[str], messages: int, text: Callable[[int], str]) -> None:
        """Write earlier events as its own rows, many at a time. Rows of equal text differ in id and time only."""
        began = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=messages + 1)
        known: dict[str, Any] = {}
        for name in names:
            session = await self.create(name)
            rows = []
            for n in range(messages):
                said = text(n)
                if said not in known:
                    author, role = (USER, "user") if n % 2 == 0 else (APP, "model")
                    event = Event(author=author, content=content(role, said), invocation_id="earlier")
                    known[said] = StorageEvent.from_event(session, event).event_data
                rows.append(
                    {
                        "id": f"{name}-{n}",
                        "app_name": APP,
                        "user_id": USER,
                        "session_id": name,
                        "invocation_id": f"earlier{n // 2}",
                        "timestamp": began + timedelta(seconds=n),
                        "event_data": known[said],
                    }
                )
            async with self.service.db_engine.begin() as connection:
                await connection.execute(insert(StorageEvent), rows)

    async def create(self, name: str) -> Any:  # noqa: ANN401 - a Session
        self._known[name] = await self.service.create_session(app_name=APP, user_id=USER, session_id=name)
        return self._known[name]

    async def read(self, name: str) -> Any:  # noqa: ANN401 - a Session
        return await self.service.get_session(app_name=APP, user_id=USER, session_id=name, config=RECENT)

    async def meet(self, name: str) -> None:
        if name not in self._known:
            self._known[name] = await (self.read(name) if self.task.load.history else self.create(name))

    async def turn(self, name: str, n: int) -> None:
        await self.meet(name)
        session = self._known[name]
        for role, author, text in (("user", USER, texts.USER), ("model", APP, texts.ASSISTANT)):
            event = Event(author=author, content=content(role, text), invocation_id=f"m{n}")
            await self.service.append_event(session, event)
        self._known[name] = await self.read(name)
        assert self._known[name].events

    async def close(self) -> None:
        await self.service.close()


class Instant(BaseLlm):
    """Gives one answer at once."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        del llm_request, stream
        yield LlmResponse(content=content("model", texts.ANSWER))


class Answers(Sessions):
    """A Runner with one agent; the last events are its context."""

    async def open(self) -> None:
        await super().open()
        agent = LlmAgent(name=APP, model=Instant(model="instant"), instruction=texts.INSTRUCTIONS)
        self._runner = Runner(app_name=APP, agent=agent, session_service=self.service)
        self._config = RunConfig(get_session_config=RECENT)

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        await self.fill(names, messages, texts.message)

    async def turn(self, name: str, n: int) -> None:
        await self.meet(name)
        said = content("user", texts.message(n))
        last = None
        async for event in self._runner.run_async(
            user_id=USER, session_id=name, new_message=said, run_config=self._config
        ):
            last = event
        assert last is not None
        assert last.content.parts[0].text == texts.ANSWER
