"""One connection to one MCP server, over a subprocess's pipes or over HTTP. Needs the extra `mcp`.

What the library says about a call is translated here into what is certain: the server answered, the call certainly did
not reach it, or the outcome is unknown. A broken transport is never a plain error of the tool: the tool may have run.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TextIO

import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_TIMEOUT

from holdfast.kernel.urls import needs_no_proxy
from holdfast.tools.mcp.program import how_to_start
from holdfast.tools.mcp.settings import McpSettings
from holdfast.turns.tool import ToolOutcome

# What a server says before it runs anything. The library reports answers that it cannot read under other codes, some of
# which are a server's too; whatever is not on this list may have taken effect.
CERTAINLY_NOT_RUN = frozenset({(INVALID_PARAMS, ""), (METHOD_NOT_FOUND, ""), (INVALID_REQUEST, "Session terminated")})
PAGES_MAX = 20
ERRORS_BYTES_MAX = 1024 * 1024  # looked at whenever a program is started
HTTP_TIMEOUT_S = 30.0
HTTP_READ_TIMEOUT_S = 300.0  # beyond the time for a call: a stream that is quiet is not broken


_unsent: ContextVar[list[str] | None] = ContextVar("holdfast_mcp_unsent", default=None)
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _RecordingClient(httpx2.AsyncClient):
    """Notes for the call under way that no connection could be made for it, which the library does not tell.

    The library sends a request in the context of the task that called. Should it ever stop doing so, nothing is noted
    and the outcome is unknown.
    """

    async def send(self, *args: Any, **more: Any) -> httpx2.Response:  # noqa: ANN401
        try:
            return await super().send(*args, **more)
        except NEVER_SENT as error:
            unsent = _unsent.get()
            if unsent is not None:
                unsent.append(type(error).__name__)
            raise


class _Stream(Protocol):
    async def receive(self) -> Any: ...  # noqa: ANN401


class _Watched:
    """A stream of a transport that tells when it ends: the library tells only whoever calls something next."""

    def __init__(self, inner: _Stream, ended: Callable[[], None]) -> None:
        self._inner: Any = inner
        self._ended = ended

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._inner, name)

    def __aiter__(self) -> "_Watched":
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> "_Watched":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:  # noqa: ANN401
        return await self._inner.__aexit__(*error)


class _Transport:
    """A transport of the library, with its reading end watched. Entered and left by the task that owns the server."""

    def __init__(self, settings: McpSettings, ended: Callable[[], None]) -> None:
        self._settings = settings
        self._ended = ended
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> tuple[Any, Any]:
        """What a failed opening has opened is closed at once: a server that cannot be started is tried for ever."""
        async with AsyncExitStack() as opening:
            read, write = await opening.enter_async_context(await self._inner(opening))
            self._stack = opening.pop_all()
        return _Watched(read, self._ended), write

    async def _inner(self, opening: AsyncExitStack) -> Any:  # noqa: ANN401
        settings = self._settings
        if settings.command:
            home = settings.home or self._passing_home(opening)
            return stdio_client(how_to_start(settings, home), errlog=self._errors(opening))
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        timeout = httpx2.Timeout(HTTP_TIMEOUT_S, read=settings.timeout_s + HTTP_READ_TIMEOUT_S)
        trusts = not needs_no_proxy(settings.url)
        client = await opening.enter_async_context(_RecordingClient(headers=headers, timeout=timeout, trust_env=trusts))
        return streamable_http_client(settings.url, http_client=client)

    def _passing_home(self, opening: AsyncExitStack) -> Path:
        """A home that goes with the program, and belongs to its user."""
        home = Path(opening.enter_context(TemporaryDirectory(prefix="holdfast-mcp-")))
        user = self._settings.user
        if user is not None and hasattr(os, "chown"):
            os.chown(home, user.uid, user.gid)
        return home

    def _errors(self, opening: AsyncExitStack) -> TextIO:
        """Where a program's stderr goes: a file of its own, since whoever looks at `holdfast up` did not ask for it."""
        file = self._settings.errors_file
        if file is None:
            return sys.__stderr__ or sys.stderr
        if file.exists() and file.stat().st_size > ERRORS_BYTES_MAX:
            file.replace(file.with_suffix(".log.1"))
        handle = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        return opening.enter_context(os.fdopen(handle, "a", encoding="utf-8"))

    async def __aexit__(self, *error: Any) -> bool | None:  # noqa: ANN401
        return await self._stack.__aexit__(*error)


class McpConnection:
    """Implements `Link` (server.py)."""

    def __init__(self, settings: McpSettings, ended: Callable[[], None]) -> None:
        self._settings = settings
        self._ended = ended
        self._client = Client(_Transport(settings, ended), cache=None, read_timeout_seconds=settings.timeout_s)

    async def __aenter__(self) -> "McpConnection":
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:  # noqa: ANN401
        await self._client.__aexit__(*error)

    async def list_tools(self) -> Sequence[tuple[str, str, Mapping[str, object]]]:
        """Name, description and schema of each tool, as the server says them."""
        found: list[tuple[str, str, Mapping[str, object]]] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._client.list_tools(cursor=cursor)
            found += [
                (tool.name, tool.description or tool.title or tool.name, tool.input_schema) for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
        server = self._settings.server
        unsent: list[str] = []
        noting = _unsent.set(unsent)
        try:
            result = await self._client.call_tool(tool, arguments)
        except MCPError as error:
            if not CERTAINLY_NOT_RUN.isdisjoint({(error.code, ""), (error.code, error.message)}):
                if error.code == INVALID_REQUEST:
                    self._ended()  # it was started again and does not know us
                return ToolOutcome(f"{server} did not take the call: {error.message}", ok=False)
            if error.code == REQUEST_TIMEOUT:
                return ToolOutcome(f"{server} did not answer within {self._settings.timeout_s:g} s.", unknown=True)
            self._ended()  # over HTTP nothing else tells; the next call finds a new connection
            if unsent:
                return ToolOutcome(f"{server} could not be reached ({unsent[0]}); nothing was run.", ok=False)
            return ToolOutcome(f"{server} was lost during the call ({error.message}).", unknown=True)
        finally:
            _unsent.reset(noting)
        return ToolOutcome(_text(result), ok=not result.is_error)


def _text(result: mcp_types.CallToolResult) -> str:
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        return mcp_types.CallToolResult(content=[], structured_content=result.structured_content).model_dump_json(
            include={"structured_content"}
        )
    return "\n".join(parts)


def _part(block: object) -> str:
    """Text as it is; anything else by name, since only text is journaled."""
    if isinstance(block, mcp_types.TextContent):
        return block.text
    if isinstance(block, mcp_types.EmbeddedResource) and isinstance(block.resource, mcp_types.TextResourceContents):
        return block.resource.text
    kind = getattr(block, "type", type(block).__name__)
    return f"[{kind} {getattr(block, 'mime_type', None) or ''}: not shown]".replace(" :", ":")
