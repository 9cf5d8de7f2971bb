"""One connection to one MCP server, over a subprocess's pipes or over HTTP. Needs the extra `mcp`.

The library's errors are translated into one of three outcomes: the server answered, the call did not reach it, or the
outcome is unknown. A broken transport is never reported as an error of the tool, because the tool may have run.

Two steps stand between Holdfast and a program: `bwrap`, if it is used, makes the view of the system (confinement.py);
launcher.py then drops privileges permanently and executes the program.

Rule 1: the program gets PATH, the language, the time zone, its own HOME and TMPDIR, and the variables of its table.
Rule 2: it runs in its own folder and session, with no descriptor but its three streams.
Rule 3: if the system supports it, the program cannot access the data folder, the configuration, files with secrets, or
        processes outside. `McpSettings.confinement` names the mode.
"""

import errno
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import httpx2
import mcp_types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_TIMEOUT

from holdfast.kernel.files import make_private_folder
from holdfast.kernel.settings_table import needs_no_proxy
from holdfast.tools.mcp import launcher
from holdfast.tools.mcp.confinement import Confine, wrapped
from holdfast.tools.mcp.settings import McpSettings
from holdfast.turns.tool import ToolOutcome

# A server sends these errors before it runs a tool. After any other error the tool may have run: the library reports
# responses that it cannot read under codes that servers use too.
CERTAINLY_NOT_RUN = frozenset({(INVALID_PARAMS, ""), (METHOD_NOT_FOUND, ""), (INVALID_REQUEST, "Session terminated")})
PAGES_MAX = 20
ERRORS_BYTES_MAX = 1024 * 1024  # checked at each start of a program
HTTP_TIMEOUT_S = 30.0
HTTP_READ_TIMEOUT_S = 300.0  # in addition to the time for a call: a silent stream is not broken
INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
TEMPORARY = "tmp"
_unsent: ContextVar[list[str] | None] = ContextVar("holdfast_mcp_unsent", default=None)
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _RecordingClient(httpx2.AsyncClient):
    """Records for the current call that no connection could be made, which the library does not report.

    The library sends a request in the context of the calling task. If it ever stops doing so, no record is made and the
    outcome is unknown.
    """

    async def send(self, *args: Any, **more: Any) -> httpx2.Response:  # noqa: ANN401
        try:
            return await super().send(*args, **more)
        except NEVER_SENT as error:
            unsent = _unsent.get()
            if unsent is not None:
                unsent.append(type(error).__name__)
            raise


class _Watched:
    """A transport stream that reports its end; the library reports it only with the next call."""

    def __init__(self, inner: Any, ended: Callable[[], None]) -> None:  # noqa: ANN401
        self._inner = inner
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


@asynccontextmanager
async def _transport(settings: McpSettings, ended: Callable[[], None]) -> AsyncIterator[tuple[Any, Any]]:
    """A transport of the library with a watched read stream. The task that owns the server enters and leaves it.

    A failed opening closes its resources at once, because a failing server is retried for ever.
    """
    async with AsyncExitStack() as stack:
        opening = _program(settings, stack) if settings.command else await _http(settings, stack)
        read, write = await stack.enter_async_context(opening)
        yield _Watched(read, ended), write


async def _http(settings: McpSettings, stack: AsyncExitStack) -> Any:  # noqa: ANN401
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    timeout = httpx2.Timeout(HTTP_TIMEOUT_S, read=settings.timeout_s + HTTP_READ_TIMEOUT_S)
    trusts = not needs_no_proxy(settings.url)
    client = await stack.enter_async_context(_RecordingClient(headers=headers, timeout=timeout, trust_env=trusts))
    return streamable_http_client(settings.url, http_client=client)


def _program(settings: McpSettings, stack: AsyncExitStack) -> Any:  # noqa: ANN401
    home = settings.home
    if home is None:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-mcp-")))
        if settings.user is not None and hasattr(os, "chown"):
            os.chown(home, settings.user.uid, settings.user.gid)
    return stdio_client(_start_parameters(settings, home), errlog=_errors(settings.errors_file, stack))


def _start_parameters(settings: McpSettings, home: Path) -> StdioServerParameters:
    """The command line, environment and folder of the program. Raises `OSError` if the program does not exist."""
    temporary = home / TEMPORARY
    if settings.user is None:
        make_private_folder(temporary)  # otherwise the launcher makes it as that user, who owns the home
    folder = settings.folder or home
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment = {**inherited, "HOME": str(home), "TMPDIR": str(temporary), **settings.environment}
    words = (_program_path(settings.command[0], environment.get("PATH")), *settings.command[1:])
    if sys.platform != "win32":
        words = (sys.executable, "-I", "-S", launcher.__file__, _instructions(settings, home, environment), *words)
    if settings.confined.bwrap:
        words = (*wrapped(settings.confined.bwrap, hidden=settings.hidden, own=home, folder=folder), *words)
    command, *arguments = words
    return StdioServerParameters(command=command, args=arguments, env=environment, cwd=folder)


def _program_path(program: str, path: str | None) -> str:
    """The absolute path of the program. A relative one starts at Holdfast's working directory."""
    file = shutil.which(program, path=path)
    if file is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return str(Path(file).absolute())


def _instructions(settings: McpSettings, home: Path, environment: Mapping[str, str]) -> str:
    """The launcher's instructions: names and paths without secrets, since other users can see a command line."""
    return json.dumps(
        {
            "keep": sorted(environment),
            "umask": settings.umask,
            "user": None if settings.user is None else [settings.user.name, settings.user.uid, settings.user.gid],
            "folders": [] if settings.user is None else [str(home / TEMPORARY)],
            "confined": settings.confined.mode is not Confine.NONE,
            "landlock": settings.confined.landlock,
            "deny": [str(path) for path in settings.hidden],
            "allow": [str(home)],
        }
    )


def _errors(file: Path | None, stack: AsyncExitStack) -> TextIO:
    """The file for a program's stderr, which must not mix with the output of `holdfast up`."""
    if file is None:
        return sys.__stderr__ or sys.stderr
    if file.exists() and file.stat().st_size > ERRORS_BYTES_MAX:
        file.replace(file.with_suffix(".log.1"))
    handle = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    return stack.enter_context(os.fdopen(handle, "a", encoding="utf-8"))


class McpConnection:
    """Implements `McpLink` (server.py)."""

    def __init__(self, settings: McpSettings, ended: Callable[[], None]) -> None:
        self._settings = settings
        self._ended = ended
        self._client = Client(_transport(settings, ended), cache=None, read_timeout_seconds=settings.timeout_s)

    async def __aenter__(self) -> "McpConnection":
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:  # noqa: ANN401
        await self._client.__aexit__(*error)

    async def list_tools(self) -> Sequence[tuple[str, str, Mapping[str, object]]]:
        """Name, description and schema of each tool, as the server sends them."""
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
                    self._ended()  # the server restarted and does not know the session
                return ToolOutcome(f"{server} rejected the call: {error.message}", ok=False)
            if error.code == REQUEST_TIMEOUT:
                return ToolOutcome(f"{server} did not answer within {self._settings.timeout_s:g} s.", unknown=True)
            self._ended()  # over HTTP no other event reports it; the next call opens a new connection
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
    """Text unchanged; other content by its type, since only text is journaled."""
    if isinstance(block, mcp_types.TextContent):
        return block.text
    if isinstance(block, mcp_types.EmbeddedResource) and isinstance(block.resource, mcp_types.TextResourceContents):
        return block.resource.text
    kind = getattr(block, "type", type(block).__name__)
    return f"[{kind} {getattr(block, 'mime_type', None) or ''}: not shown]".replace(" :", ":")
