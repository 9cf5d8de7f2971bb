"""The only module that calls the SDK. A call that fails raises `HonchoCallFailed`.

Rule 1: `max_retries=0`, always. The SDK would resend a POST after a timeout, and Honcho would store it twice.
Rule 2: no method creates a session. The first message creates it, so no session is ever empty.
Rule 3: a write first ensures the workspace by a call of its own. A failure of that call has changed nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import httpx
from honcho import Honcho, Peer, Session  # type: ignore[import-untyped]
from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]
from honcho.conclusions import Conclusion  # type: ignore[import-untyped]
from honcho.http import routes  # type: ignore[import-untyped]
from honcho.http.exceptions import HonchoError  # type: ignore[import-untyped]
from honcho.message import Message  # type: ignore[import-untyped]

from holdfast.kernel.ids import Instant
from holdfast.kernel.settings_table import needs_no_proxy
from holdfast.memory.delivery import Uncertain, Unreachable
from holdfast.providers.honcho.factory import HonchoSettings
from holdfast.providers.honcho.faults import MALFORMED, ErrorResponses, HonchoCallFailed, failed

PAGE = 100
PAGES_MAX = 200  # per question
IDS_PER_QUESTION = 100
_responses: ContextVar[ErrorResponses | None] = ContextVar("responses", default=None)


async def _on_response(response: httpx.Response) -> None:
    """Calls run concurrently; the context variable gives each its own responses."""
    responses = _responses.get()
    if responses is not None:
        await responses.note(response)


class HonchoClient:
    def __init__(self, settings: HonchoSettings, key: str | None) -> None:
        self._honcho: Any = Honcho(
            base_url=settings.url,
            workspace_id=settings.workspace,
            api_key=key,
            timeout=settings.timeout_s,
            max_retries=0,
        )
        if key is None:  # without a key the SDK reads one from the process's environment, which we must not send
            self._honcho._http_config["api_key"] = self._honcho._http.api_key = None  # noqa: SLF001
        self._is_direct = needs_no_proxy(settings.url)
        self._key = key
        self._key_env = settings.api_key_env

    @contextmanager
    def _calling(self, *, writes: bool = False, missing_ok: bool = False) -> Iterator[None]:
        """Translate errors. With `missing_ok` a 404 ends the block silently."""
        responses = ErrorResponses(self._key)
        token = _responses.set(responses)
        client = self._honcho._async_http_client._client  # noqa: SLF001 - the SDK makes one for each loop
        client.event_hooks = {"response": [_on_response]}
        if self._is_direct:
            client._mounts.clear()  # noqa: SLF001 - the proxies of the environment
        try:
            yield
        except (HonchoError, *MALFORMED) as error:
            if missing_ok and getattr(error, "status", 0) == 404:
                return
            # Not `from error`: the vendor's exceptions hold people's words, and a traceback shows its causes.
            raise failed(error, writes=writes, key_env=self._key_env, vendor=responses.vendor) from None
        finally:
            _responses.reset(token)

    async def ensure_workspace(self) -> None:
        with self._calling():
            await self._honcho._ensure_workspace_async()  # noqa: SLF001 - every public call begins with it

    async def check_database(self) -> None:
        """A round trip to Honcho's database: /health answers 200 even while the database is down."""
        with self._calling():
            await self._honcho.aio.get_metadata()

    async def check_access(self) -> None:
        """Ask for one session, which creates nothing. The first message creates a missing workspace."""
        path = routes.sessions_list(self._honcho.workspace_id)
        with self._calling(missing_ok=True):
            client = self._honcho._async_http_client  # noqa: SLF001 - every public call creates the workspace
            await client.post(path, body=None, query={"page": 1, "size": 1})

    async def close(self) -> None:
        self._honcho._http.close()  # noqa: SLF001 - the SDK has no public way to close
        built = self._honcho._async_http_built  # noqa: SLF001
        if built is not None:
            await built[1].close()

    # --- messages

    async def add(self, place: str, messages: Sequence[MessageCreateParams]) -> None:
        """Store all messages or none. `Uncertain` when Honcho acknowledges another number than was sent."""
        await self.ensure_workspace()
        with self._calling(writes=True):
            rows = await Session(place, self._honcho).aio.add_messages(list(messages))
        if len({row.id for row in rows}) != len(messages):
            raise HonchoCallFailed(Uncertain(f"Honcho acknowledged {len(rows)} of {len(messages)} messages"))

    async def find(self, place: str, turn_ids: Sequence[str]) -> dict[str, list[str]]:
        """The turn ids that Honcho lists, each with the ids of its messages there."""
        found: dict[str, list[str]] = {}
        for start in range(0, len(turn_ids), IDS_PER_QUESTION):
            filters = {"metadata": {"turn_id": {"in": list(turn_ids[start : start + IDS_PER_QUESTION])}}}
            with self._calling():
                page = await Session(place, self._honcho).aio.messages(filters=filters, size=PAGE)
                for row in await _all_rows(page):
                    found.setdefault(str((row.metadata or {}).get("turn_id")), []).append(row.id)
        return found

    async def count(self, place: str, metadata: Mapping[str, object] | None = None) -> int:
        with self._calling():
            filters = {"metadata": dict(metadata)} if metadata else None
            page = await Session(place, self._honcho).aio.messages(filters=filters, size=1)
            return int(page.total)

    async def places(self) -> list[str]:
        """The names of all sessions; none if the workspace does not exist. Creates nothing."""
        path = routes.sessions_list(self._honcho.workspace_id)
        found: list[str] = []
        with self._calling(missing_ok=True):
            client = self._honcho._async_http_client  # noqa: SLF001 - every public call creates the workspace
            for number in range(1, PAGES_MAX + 1):
                page = await client.post(path, body=None, query={"page": number, "size": PAGE})
                found += [str(row["id"]) for row in page["items"]]
                if number >= int(page["pages"]):
                    return found
            raise HonchoCallFailed(Unreachable(f"the workspace has more than {PAGES_MAX * PAGE} sessions"))
        return []

    async def messages(self, place: str) -> list[Message]:
        """All messages of a session, oldest first; none for a session that does not exist."""
        with self._calling(missing_ok=True):
            return await _all_rows(await Session(place, self._honcho).aio.messages(size=PAGE))
        return []

    async def texts(self, place: str) -> list[str]:
        """The words of all messages of a session; none for a session that does not exist."""
        return [str(row.content) for row in await self.messages(place)]

    async def search(self, place: str, text: str, metadata: Mapping[str, object] | None, limit: int) -> list[Message]:
        """Empty for a session that does not exist yet."""
        with self._calling(missing_ok=True):
            filters = {"metadata": dict(metadata)} if metadata else None
            return list(await Session(place, self._honcho).aio.search(text, filters=filters, limit=limit))
        return []

    async def delete_session(self, place: str) -> None:
        """Request a deletion, which Honcho carries out later."""
        with self._calling(missing_ok=True):
            await Session(place, self._honcho).aio.delete()

    # --- peers and conclusions

    async def make_peer(self, name: str) -> None:
        with self._calling():
            await self._honcho.aio.peer(name)

    async def clear_card(self, peer: str) -> None:
        with self._calling():
            person = Peer(peer, self._honcho).aio
            if await person.get_card():
                await person.set_card([])

    async def conclusions(self, **filters: str) -> list[Conclusion]:
        with self._calling():
            return await _all_rows(await self._honcho.conclusions.aio.list(filters=filters, size=PAGE))

    async def conclude(self, observer: str, observed: str, text: str) -> None:
        await self.ensure_workspace()
        with self._calling(writes=True):
            rows = await Peer(observer, self._honcho).conclusions_of(observed).aio.create([{"content": text}])
        if len(rows) != 1:
            raise HonchoCallFailed(Uncertain(f"Honcho acknowledged {len(rows)} conclusions instead of one"))

    async def query(self, observer: str, observed: str, text: str, limit: int) -> list[Conclusion]:
        """Empty for a peer that does not exist yet."""
        with self._calling(missing_ok=True):
            return list(await Peer(observer, self._honcho).conclusions_of(observed).aio.query(text, top_k=limit))
        return []

    async def delete_conclusion(self, id: str) -> None:
        with self._calling(writes=True, missing_ok=True):
            await Peer("holdfast", self._honcho).conclusions.aio.delete(id)


async def _all_rows(page: Any) -> list[Any]:  # noqa: ANN401 - the SDK has no types
    """Every row of a question. A question with more rows than the limit fails; it never returns a part of them."""
    rows: list[Any] = []
    for _ in range(PAGES_MAX):
        rows += page.items
        following = await page.get_next_page()
        if following is None:
            return rows
        page = following
    raise HonchoCallFailed(Unreachable(f"Honcho has more than {PAGES_MAX * PAGE} rows for one question"))


def instant(at: datetime) -> Instant:
    return Instant(round(at.timestamp() * 1000))
