"""A Hindsight for Hermes' own plugin, whose client is older than ours: documents that are replaced or appended to."""

import asyncio
from collections import deque
from typing import Any

from aiohttp import web


class HindsightRecorder:
    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], list[str]] = {}  # (bank, document) -> stored contents
        self.tags: dict[tuple[str, str], list[str]] = {}
        self.version_fails = 0  # how many questions for the version fail
        self.retain_fails = 0
        self.recalled = "a memory"
        self.recalls_wait = False
        self.released = asyncio.Event()
        self.recall_began = asyncio.Event()
        self.lines: deque[str] = deque(maxlen=1_000)

    async def __aenter__(self) -> "HindsightRecorder":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self.released.set()
        await self._runner.cleanup()

    def count(self, text: str) -> int:
        """How often a text is stored."""
        return sum(content.count(text) for stored in self.documents.values() for content in stored)

    def places(self, text: str) -> set[tuple[str, str]]:
        """The (bank, document) pairs that hold a text."""
        return {place for place, stored in self.documents.items() if any(text in content for content in stored)}

    async def _serve(self, request: web.Request) -> web.Response:
        self.lines.append(f"{request.method} {request.path}")
        if request.path == "/version":
            if self.version_fails:
                self.version_fails -= 1
                return web.json_response({}, status=500)
            return web.json_response({"api_version": "1.1.0", "features": {}})
        parts = request.path.split("/")[4:]
        if request.path.endswith("/recall"):
            self.recall_began.set()
            if self.recalls_wait:
                await self.released.wait()
            return web.json_response({"results": [{"id": "1", "text": self.recalled, "type": "observation"}]})
        if request.method == "POST" and parts[1:] == ["memories"]:
            return self._retain(parts[0], await request.json())
        return web.json_response({})

    def _retain(self, bank: str, body: dict[str, Any]) -> web.Response:
        if self.retain_fails:
            self.retain_fails -= 1
            return web.json_response({"detail": "down"}, status=500)
        for item in body["items"]:
            place = bank, item.get("document_id") or body.get("document_id") or "none"
            stored = self.documents.setdefault(place, [])
            if item.get("update_mode") != "append":
                stored.clear()
            stored.append(item["content"])
            self.tags[place] = list(item.get("tags") or [])
        count = len(body["items"])
        return web.json_response({"success": True, "bank_id": bank, "items_count": count, "async": False})
