"""A vendor for tests: a server on a loopback socket that speaks the streaming protocols, and has every bad habit.

The vendors' real clients talk to it. `plays` are taken in order, one per request; the last one stays. A play writes raw
bytes, so that it can break off, hang or garble at any byte.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CANARY = "canary-of-the-vendor"  # in every error body; it may never be shown
KEY = "sk-canary-key-0123456789"


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


@dataclass
class Line:
    """The connection that a play answers on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def hang(self) -> None:
        """Until the other side goes away."""
        await self.reader.read()


Play = Callable[[Line], Awaitable[None]]


@dataclass
class FakeVendor:
    plays: list[Play] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    quiet: asyncio.Event = field(default_factory=asyncio.Event)  # no connection is open

    async def __aenter__(self) -> "FakeVendor":
        self.quiet.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        await self.quiet.wait()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        self.quiet.clear()
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
                await play(Line(reader, writer))
                if getattr(play, "ends", False):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()
            with suppress(OSError):  # the other side may have gone first
                await writer.wait_closed()  # or its socket is left to the garbage collector when the loop ends
            self._open.discard(writer)
            if not self._open:
                self.quiet.set()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ", 2)
    return Asked(method, path, headers, body)


# --- answers ---------------------------------------------------------------------------------------


def head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk(raw: bytes) -> bytes:
    return f"{len(raw):x}\r\n".encode() + raw + b"\r\n"


def status(code: int, body: object = None, **headers: str) -> Play:
    """A plain answer, with an error body that says too much."""
    raw = json.dumps(body if body is not None else {"error": {"message": f"{CANARY} {KEY}", "type": "x"}}).encode()

    async def play(line: Line) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await line.send(
            head(code, {"content-type": "application/json", "content-length": str(len(raw)), **named}) + raw
        )

    return play


def page(text: str) -> Play:
    """200, and a page for people."""

    async def play(line: Line) -> None:
        raw = text.encode()
        await line.send(head(200, {"content-type": "text/html", "content-length": str(len(raw))}) + raw)

    return play


async def hangs(line: Line) -> None:
    await line.hang()


def streams(pieces: Iterable[bytes], *, end: str = "clean") -> Play:
    """Server-sent events in chunks. `end`: clean, hang, cut (the connection closes inside the body)."""
    sent = tuple(pieces)

    async def play(line: Line) -> None:
        await line.send(head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        for piece in sent:
            await line.send(chunk(piece))
            await asyncio.sleep(0)
        if end == "clean":
            await line.send(b"0\r\n\r\n")
        elif end == "hang":
            await line.hang()

    play.ends = end == "cut"  # type: ignore[attr-defined]
    return play


def event(value: object, name: str = "") -> bytes:
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


# --- OpenAI, Chat Completions ----------------------------------------------------------------------

USAGE = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}


def delta(choice: Mapping[str, object], reason: str | None = None) -> bytes:
    return event(
        {
            "id": "chat_1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "m",
            "choices": [{"index": 0, "delta": choice, "finish_reason": reason}],
        }
    )


def usage(counts: Mapping[str, object] = USAGE) -> bytes:
    return event(
        {
            "id": "chat_1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "m",
            "choices": [],
            "usage": counts,
        }
    )


DONE = b"data: [DONE]\n\n"


def chat(*words: str, reason: str | None = "stop", counts: Mapping[str, object] | None = USAGE) -> tuple[bytes, ...]:
    told = [delta({"role": "assistant", "content": ""}), *(delta({"content": word}) for word in words)]
    last = [delta({}, reason)] if reason else []
    return (*told, *last, *([usage(counts)] if counts else []), DONE)


def chat_calls(*calls: tuple[str, str, Sequence[str]]) -> tuple[bytes, ...]:
    """Tool calls, the arguments of each in pieces."""
    told: list[bytes] = []
    for n, (call, name, pieces) in enumerate(calls):
        first = {"index": n, "id": call, "type": "function", "function": {"name": name, "arguments": ""}}
        told.append(delta({"role": "assistant", "tool_calls": [first]}))
        told += [delta({"tool_calls": [{"index": n, "function": {"arguments": piece}}]}) for piece in pieces]
    return (*told, delta({}, "tool_calls"), usage(), DONE)


# --- OpenAI, Responses -----------------------------------------------------------------------------


def responses(*words: str) -> tuple[bytes, ...]:
    text = "".join(words)
    shell = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "m",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    item = {"id": "msg_1", "type": "message", "role": "assistant"}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": text, "annotations": []}
    counts = {
        "input_tokens": 12,
        "output_tokens": 5,
        "total_tokens": 17,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole = {**item, "status": "completed", "content": [part]}
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**shell, "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in words),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {
            "type": "response.completed",
            "response": {**shell, "status": "completed", "output": [whole], "usage": counts},
        },
    ]
    return tuple(event({**one, "sequence_number": n}, one["type"]) for n, one in enumerate(told))


# --- Anthropic, Messages ---------------------------------------------------------------------------


def claude(
    *words: str, reason: str = "end_turn", call: tuple[str, str, Sequence[str]] | None = None
) -> tuple[bytes, ...]:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": 3},
    }
    told: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    n = 0
    if words:
        told.append({"type": "content_block_start", "index": n, "content_block": {"type": "text", "text": ""}})
        told += [
            {"type": "content_block_delta", "index": n, "delta": {"type": "text_delta", "text": word}} for word in words
        ]
        told.append({"type": "content_block_stop", "index": n})
        n += 1
    if call:
        block = {"type": "tool_use", "id": call[0], "name": call[1], "input": {}}
        told.append({"type": "content_block_start", "index": n, "content_block": block})
        told += [
            {"type": "content_block_delta", "index": n, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in call[2]
        ]
        told.append({"type": "content_block_stop", "index": n})
    ended = {"stop_reason": reason, "stop_sequence": None}
    told += [
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return tuple(event(one, one["type"]) for one in told)
