"""The only place that calls the SDK. Each method is one question or one deed; what fails is raised as `CallFailed`.

Rule 1: `max_retries=0`, always: the SDK would send a POST again after a timeout, and Honcho would keep it twice.
Rule 2: a session is only ever named here, never made: the first message makes it, so none is ever empty.
Rule 3: the workspace is made sure of before any write, by a call of its own. What fails there has changed nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from honcho import Honcho, Peer, Session  # type: ignore[import-untyped]
from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]
from honcho.http import routes  # type: ignore[import-untyped]
from honcho.http.exceptions import HonchoError  # type: ignore[import-untyped]

from holdfast.kernel.ids import Instant
from holdfast.kernel.urls import needs_no_proxy
from holdfast.memory.delivery import Uncertain, Unreachable
from holdfast.providers.honcho.faults import MISSHAPEN, CallFailed, HonchoAnswer, failed
from holdfast.providers.honcho.rendering import Said

PAGE = 100
PAGES_MAX = 200  # of one question
IDS_PER_QUESTION = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A message or conclusion as Honcho has it."""

    id: str
    text: str
    at: Instant
    peer: str
    metadata: Mapping[str, Any]


_seen: ContextVar[HonchoAnswer | None] = ContextVar("seen", default=None)


async def _on_answer(response: httpx.Response) -> None:
    """Calls run side by side; each sees its own answers."""
    seen = _seen.get()
    if seen is not None:
        await seen.note(response)


class Calls:
    def __init__(self, *, url: str, workspace: str, key: str | None, key_env: str | None, timeout_s: float) -> None:
        self._honcho: Any = Honcho(base_url=url, workspace_id=workspace, api_key=key, timeout=timeout_s, max_retries=0)
        if key is None:  # without one the SDK looks into the process's environment, which is not ours to send
            self._honcho._http_config["api_key"] = self._honcho._http.api_key = None  # noqa: SLF001
        self._is_direct = needs_no_proxy(url)
        self._key = key
        self._key_env = key_env

    @contextmanager
    def _calling(self, *, writes: bool) -> Iterator[None]:
        seen = HonchoAnswer(self._key)
        token = _seen.set(seen)
        client = self._honcho._async_http_client._client  # noqa: SLF001 - the SDK makes it, one for each loop
        client.event_hooks = {"response": [_on_answer]}
        if self._is_direct:
            client._mounts.clear()  # noqa: SLF001 - the proxies of the environment
        try:
            yield
        except (HonchoError, *MISSHAPEN) as error:
            # Not `from error`: the vendor's exceptions hold people's words, and a traceback shows its causes.
            raise failed(error, writes=writes, key_env=self._key_env, vendor=seen.vendor) from None
        finally:
            _seen.reset(token)

    async def ready(self) -> None:
        with self._calling(writes=False):
            await self._honcho._ensure_workspace_async()  # noqa: SLF001 - every public call begins with it

    async def prove(self) -> None:
        """A round trip to Honcho's database: its /health is 200 even when that is down."""
        with self._calling(writes=False):
            await self._honcho.aio.get_metadata()

    async def look(self) -> None:
        """Ask for one session, which makes nothing. A workspace that is not there yet is made by the first message."""
        workspace = self._honcho.workspace_id
        with self._calling(writes=False):
            try:
                await self._honcho._async_http_client.post(  # noqa: SLF001 - every public call makes the workspace
                    routes.sessions_list(workspace), body=None, query={"page": 1, "size": 1}
                )
            except HonchoError as error:
                if error.status != 404:
                    raise

    async def close(self) -> None:
        self._honcho._http.close()  # noqa: SLF001 - the SDK has no public way to close
        built = self._honcho._async_http_built  # noqa: SLF001
        if built is not None:
            await built[1].close()

    # --- messages

    async def add(self, place: str, messages: Sequence[Said]) -> None:
        """All of them or none. `Uncertain` when the answer does not name as many as were sent."""
        await self.ready()
        with self._calling(writes=True):
            rows = await Session(place, self._honcho).aio.add_messages([_params(message) for message in messages])
        if len({row.id for row in rows}) != len(messages):
            raise CallFailed(Uncertain(f"Honcho acknowledged {len(rows)} of {len(messages)} messages"))

    async def find(self, place: str, turn_ids: Sequence[str]) -> dict[str, list[str]]:
        """Those of the turn ids that Honcho lists, each with the ids of its messages there."""
        found: dict[str, list[str]] = {}
        for start in range(0, len(turn_ids), IDS_PER_QUESTION):
            asked = list(turn_ids[start : start + IDS_PER_QUESTION])
            for kept in await self._messages(place, {"turn_id": {"in": asked}}):
                found.setdefault(str(kept.metadata.get("turn_id")), []).append(kept.id)
        return found

    async def _messages(self, place: str, metadata: Mapping[str, object]) -> list[Kept]:
        with self._calling(writes=False):
            page = await Session(place, self._honcho).aio.messages(filters={"metadata": dict(metadata)}, size=PAGE)
            return [_message(row) for row in await _all(page)]

    async def count(self, place: str, metadata: Mapping[str, object] | None = None) -> int:
        with self._calling(writes=False):
            filters = {"metadata": dict(metadata)} if metadata else None
            page = await Session(place, self._honcho).aio.messages(filters=filters, size=1)
            return int(page.total)

    async def search(self, place: str, text: str, metadata: Mapping[str, object] | None, limit: int) -> list[Kept]:
        with self._calling(writes=False):
            filters = {"metadata": dict(metadata)} if metadata else None
            rows = await Session(place, self._honcho).aio.search(text, filters=filters, limit=limit)
            return [_message(row) for row in rows]

    async def delete_session(self, place: str) -> None:
        """Asks for it. Honcho does it later; one that is being deleted, or never was, is no error."""
        with self._calling(writes=False):
            try:
                await Session(place, self._honcho).aio.delete()
            except HonchoError as error:
                if error.status != 404:
                    raise

    # --- peers and conclusions

    async def make_peer(self, name: str) -> None:
        with self._calling(writes=False):
            await self._honcho.aio.peer(name)

    async def clear_card(self, peer: str) -> None:
        with self._calling(writes=False):
            person = Peer(peer, self._honcho).aio
            if await person.get_card():
                await person.set_card([])

    async def conclusions(self, **filters: str) -> list[Kept]:
        with self._calling(writes=False):
            page = await self._honcho.conclusions.aio.list(filters=filters, size=PAGE)
            return [_conclusion(row) for row in await _all(page)]

    async def conclude(self, observer: str, observed: str, text: str) -> None:
        await self.ready()
        with self._calling(writes=True):
            rows = await Peer(observer, self._honcho).conclusions_of(observed).aio.create([{"content": text}])
        if len(rows) != 1:
            raise CallFailed(Uncertain(f"Honcho acknowledged {len(rows)} conclusions instead of one"))

    async def query(self, observer: str, observed: str, text: str, limit: int) -> list[Kept]:
        with self._calling(writes=False):
            rows = await Peer(observer, self._honcho).conclusions_of(observed).aio.query(text, top_k=limit)
            return [_conclusion(row) for row in rows]

    async def delete_conclusion(self, id: str) -> None:
        """One that is gone already is no error."""
        with self._calling(writes=True):
            try:
                await Peer("holdfast", self._honcho).conclusions.aio.delete(id)
            except HonchoError as error:
                if error.status != 404:
                    raise


async def _all(page: Any) -> list[Any]:  # noqa: ANN401 - the SDK has no types
    """Every row of a question. One that has more than we would ever read is not answered with a part of them."""
    rows = []
    for _ in range(PAGES_MAX):
        rows += page.items
        following = await page.get_next_page()
        if following is None:
            return rows
        page = following
    raise CallFailed(Unreachable(f"Honcho has more than {PAGES_MAX * PAGE} rows for one question"))


def _params(message: Said) -> MessageCreateParams:
    return MessageCreateParams(
        content=message.text,
        peer_id=message.peer,
        metadata=dict(message.metadata),
        created_at=datetime.fromtimestamp(message.at / 1000, UTC),
    )


def _message(row: Any) -> Kept:  # noqa: ANN401
    return Kept(id=row.id, text=row.content, at=_ms(row.created_at), peer=row.peer_id, metadata=row.metadata or {})


def _conclusion(row: Any) -> Kept:  # noqa: ANN401
    return Kept(id=row.id, text=row.content, at=_ms(row.created_at), peer=row.observed_id, metadata={})


def _ms(at: datetime) -> Instant:
    return Instant(round(at.timestamp() * 1000))
