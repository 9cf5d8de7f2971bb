"""A Hindsight for tests: an HTTP server on a loopback socket that the vendor's real client talks to.

It behaves as the real server (1.1.0) was measured to, its bad habits included: a known operation id takes no other
content and says success; a failed operation stays failed under a resubmission; an unknown id is "not_found" with 200;
control characters are stripped before hashing; deleting a document that an operation is about to write answers 404.

`faults` are taken in order by the requests whose line (`POST /v1/default/banks/main/memories`) holds their `on`.
"""

import asyncio
import hashlib
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import web

Effect = Callable[[], web.Response]
STRIPPED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass
class Fault:
    on: str
    status: int = 0  # answer with this
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"detail": "the words that were sent, quoted"}'
    content_type: str = "application/json"
    effect: bool = False  # whether the request takes effect all the same
    cut: bool = False  # close the connection instead of answering
    stall: bool = False  # answer only when the fake is closed
    held: bool = False  # a proxy answers by itself, and forwards the request when the test calls `forward`


@dataclass
class Operation:
    document: str
    item: dict[str, Any]
    state: str
    looks: int = 0  # how often it is still at work when asked
    child: str | None = None
    runs: int = 0


@dataclass
class Bank:
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)


class FakeHindsight:
    def __init__(self, version: str = "1.1.0", key: str | None = None) -> None:
        self.version = version
        self.key = key
        self.banks: dict[str, Bank] = {}
        self.faults: deque[Fault] = deque()
        self.requests: list[str] = []
        self.held: list[web.Request] = []  # what a proxy has answered and not forwarded yet
        self.database_down = False  # everything but /version answers 500; /health says 503, as measured
        self.failures = 0  # how many runs of operations fail
        self.looks = 0  # for how many questions a new operation is at work
        self.frozen = False  # operations never finish
        self.forgetful = False  # submissions are answered with success and forgotten
        self.lying = False  # operations complete without writing anything
        self.ignores_tags = False
        self._released = asyncio.Event()

    async def __aenter__(self) -> "FakeHindsight":
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = cast("tuple[str, int]", self._runner.addresses[0])[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._released.set()
        await self._runner.cleanup()

    def bank(self, name: str = "main") -> Bank:
        return self.banks.setdefault(name, Bank())

    def texts(self, name: str = "main") -> list[str]:
        return [document["original_text"] for document in self.bank(name).documents.values()]

    def sent(self, part: str) -> int:
        return sum(part in line for line in self.requests)

    async def forward(self) -> None:
        held, self.held = self.held, []
        for request in held:
            await self._answer(request)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        line = f"{request.method} {request.path}"
        self.requests.append(line)
        fault = next((fault for fault in self.faults if fault.on in line), None)
        if fault is not None:
            self.faults.remove(fault)
            return await self._faulty(request, fault)
        return await self._answer(request)

    async def _faulty(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.effect:
            await self._answer(request)
        if fault.held:
            await request.read()
            self.held.append(request)
        if fault.stall:
            await self._released.wait()
        if fault.cut and request.transport:
            request.transport.close()
        headers = {**fault.headers, "Content-Type": fault.content_type}
        return web.Response(status=fault.status or 200, headers=headers, text=fault.body)

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == "/version":
            return web.json_response({"api_version": self.version, "features": {"mcp": True}})
        if request.path == "/health":
            return web.json_response({}, status=503 if self.database_down else 200)
        if self.database_down:
            return _problem(500, "[Errno 111] Connection refused")
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _problem(401, "Authentication failed: Invalid API key")
        parts = request.path.split("/")[4:]
        bank, rest = parts[0], parts[1:]
        handlers: dict[tuple[str, str], Callable[[web.Request, str, list[str]], Awaitable[web.Response]]] = {
            ("POST", "memories"): self._memories,
            ("GET", "documents"): self._get_documents,
            ("DELETE", "documents"): self._delete_document,
            ("GET", "operations"): self._get_operations,
            ("POST", "operations"): self._retry,
            ("DELETE", "operations"): self._drop,
        }
        return await handlers[request.method, rest[0]](request, bank, rest[1:])

    # --- retain and recall

    async def _memories(self, request: web.Request, bank: str, rest: list[str]) -> web.Response:
        body = await request.json()
        if rest:
            return self._recall(bank, body)
        operation, item = body["operation_id"], body["items"][0]
        if any(operation in other.operations for name, other in self.banks.items() if name != bank):
            return _problem(409, "operation exists in another bank")
        if not self.forgetful and operation not in self.bank(bank).operations:
            self.bank(bank).operations[operation] = Operation(item["document_id"], item, "pending", self.looks)
        answer = {"success": True, "bank_id": bank, "items_count": 1, "async": True, "operation_id": operation}
        return web.json_response(answer)

    def _recall(self, bank: str, body: dict[str, Any]) -> web.Response:
        if bank not in self.banks:
            return _problem(404, "bank not found")
        wanted = set(body["tags"])
        found = [d for d in self.bank(bank).documents.values() if self.ignores_tags or wanted & set(d["tags"])]
        results = [
            {
                "id": f"unit of {document['id']}",
                "text": document["original_text"],
                "document_id": document["id"],
                "metadata": document["document_metadata"],
                "tags": document["tags"],
                "mentioned_at": "2026-01-01T00:00:00+00:00",
                "scores": {"final": 0.5},
            }
            for document in found
        ]
        return web.json_response({"results": results})

    def run(self, operation: Operation, bank: str) -> None:
        """What the server's worker does with an operation."""
        operation.runs += 1
        if self.failures:
            self.failures -= 1
            operation.state = "failed"
            return
        operation.state = "completed"
        if not self.lying:
            self.keep(operation.item, bank)

    def keep(self, item: dict[str, Any], bank: str) -> None:
        text = STRIPPED.sub("", item["content"])
        self.bank(bank).documents[item["document_id"]] = {
            "id": item["document_id"],
            "bank_id": bank,
            "original_text": text,
            "content_hash": hashlib.sha256(text.encode()).hexdigest(),
            "created_at": "2026-01-01T00:00:00+00:00",
            "updated_at": "2026-01-01T00:00:00+00:00",
            "memory_unit_count": 1,
            "tags": item["tags"],
            "document_metadata": item["metadata"],
        }

    # --- documents

    async def _get_documents(self, request: web.Request, bank: str, rest: list[str]) -> web.Response:
        if rest:
            found = self.bank(bank).documents.get(rest[0])
            return web.json_response(found) if found else _problem(404, "Document not found")
        if bank not in self.banks:
            return _problem(404, "bank not found")
        wanted = set(request.query.getall("tags", []))
        items = [d for d in self.bank(bank).documents.values() if self.ignores_tags or wanted <= set(d["tags"])]
        return web.json_response(_page(request, "items", items))

    async def _delete_document(self, request: web.Request, bank: str, rest: list[str]) -> web.Response:
        if self.bank(bank).documents.pop(rest[0], None) is None:
            return _problem(404, "Document not found")
        answer = {"success": True, "message": "deleted", "document_id": rest[0], "memory_units_deleted": 1}
        return web.json_response(answer)

    # --- operations

    async def _get_operations(self, request: web.Request, bank: str, rest: list[str]) -> web.Response:
        if not rest:
            return self._list_operations(request, bank)
        operation = self.bank(bank).operations.get(rest[0])
        if operation is None:
            return web.json_response({"operation_id": rest[0], "status": "not_found"})
        self._work(operation, bank)
        parts = [{"operation_id": "part", "status": operation.child}] if operation.child else []
        answer = {"operation_id": rest[0], "status": operation.state, "child_operations": parts}
        return web.json_response(answer)

    def _work(self, operation: Operation, bank: str) -> None:
        """Time passes for an operation when somebody asks about it."""
        if operation.state == "pending" and not self.frozen:
            operation.looks -= 1
            if operation.looks < 0:
                self.run(operation, bank)

    def _list_operations(self, request: web.Request, bank: str) -> web.Response:
        if bank not in self.banks:
            return _problem(404, "bank not found")
        wanted = request.query.get("status")
        rows = [
            {
                "id": name,
                "task_type": "batch_retain",
                "items_count": 1,
                "document_id": operation.document,
                "created_at": "2026-01-01T00:00:00+00:00",
                "status": operation.state,
                "error_message": None,
            }
            for name, operation in self.bank(bank).operations.items()
            if wanted in (None, operation.state)
        ]
        for operation in self.bank(bank).operations.values():
            self._work(operation, bank)
        return web.json_response({"bank_id": bank, **_page(request, "operations", rows)})

    async def _retry(self, request: web.Request, bank: str, rest: list[str]) -> web.Response:
        operation = self.bank(bank).operations.get(rest[0])
        if operation is None:
            return _problem(404, "operation not found")
        if operation.state not in ("failed", "cancelled"):
            return _problem(409, "cannot be retried")
        operation.state, operation.looks = "pending", self.looks
        return web.json_response({"success": True, "message": "queued", "operation_id": rest[0]})

    async def _drop(self, request: web.Request, bank: str, rest: list[str]) -> web.Response:
        operation = self.bank(bank).operations.get(rest[0])
        if operation is None:
            return _problem(404, "operation not found")
        if operation.state == "pending":
            return _problem(409, "cannot be deleted")
        del self.bank(bank).operations[rest[0]]
        return web.json_response({"success": True, "message": "deleted", "operation_id": rest[0]})


def _problem(status: int, detail: str) -> web.Response:
    return web.json_response({"detail": detail}, status=status)


def _page(request: web.Request, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    limit, offset = int(request.query.get("limit", 20)), int(request.query.get("offset", 0))
    return {name: rows[offset : offset + limit], "total": len(rows), "limit": limit, "offset": offset}
