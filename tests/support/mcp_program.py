"""A real MCP server for the tests: over stdio when it is run, over HTTP inside a test. Its tools answer, fail, die."""

import asyncio
import os
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp_types import Tool

server = MCPServer("tests", log_level="CRITICAL")
hanging = asyncio.Event()  # set once somebody has asked `hang`


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(name="odd.name")
def odd() -> str:
    """Has a name that not every vendor takes."""
    return "odd"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no ground")


@server.tool()
def secret(name: str) -> str:
    """Says an environment variable."""
    return os.environ.get(name, "absent")


@server.tool()
async def hang() -> str:
    """Never answers."""
    hanging.set()
    await anyio.Event().wait()
    return ""


@server.tool()
def pid() -> int:
    """Says which process this is."""
    return os.getpid()


@server.tool()
async def hold(port: int) -> str:
    """Says which process this is on a socket of the test, and never answers."""
    async with await anyio.connect_tcp("127.0.0.1", port) as told:
        await told.send(f"{os.getpid()}\n".encode())
        await anyio.Event().wait()
    return ""


@server.tool()
def die() -> str:
    """Takes the server with it."""
    os._exit(3)


BAD: dict[str, dict[str, object]] = {
    "crooked": {"type": "object", "properties": ["not", "a", "table"]},
    "huge": {"type": "object", "title": "x" * 40_000},
}
WORSE: dict[str, dict[str, object]] = {"text": {"type": "string"}}  # the library refuses to list it


def also_listing(schemas: dict[str, dict[str, object]]) -> MCPServer:
    """The same server, which lists some more tools that cannot be offered."""

    class Listing(MCPServer):
        async def list_tools(self) -> list[Tool]:
            return [*await server.list_tools(), *(Tool(name=name, input_schema=one) for name, one in schemas.items())]

        async def call_tool(self, *args: Any, **more: Any) -> Any:
            return await server.call_tool(*args, **more)

    return Listing("tests", log_level="CRITICAL")


if __name__ == "__main__":
    server.run()
