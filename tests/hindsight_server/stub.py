"""A model and an embedder for the real server, in the OpenAI dialect, on a loopback socket in a thread.

Embeddings are hashed bags of words, so that equal words are near. The model makes a fact of every line. `hold` makes
it wait, so that a test can stop the server in the middle of an operation; `failures` makes it fail.
"""

import base64
import hashlib
import json
import math
import re
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 384
HOLD_S_MAX = 60.0


class StubModel:
    def __init__(self) -> None:
        self.failures = 0
        self.asked = threading.Event()  # set when the model was asked for facts
        self._free = threading.Event()
        self._free.set()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = stub.answer(self.path, asked)
                body = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True  # the server was killed meanwhile, which is the point of some tests

        class Listener(ThreadingHTTPServer):
            daemon_threads = True

        self._listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._listener.server_port}/v1"
        self._thread = threading.Thread(target=self._listener.serve_forever, daemon=True)
        self._thread.start()

    def hold(self) -> None:
        self.asked.clear()
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    def close(self) -> None:
        self.release()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def answer(self, path: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path.endswith("/embeddings"):
            return 200, _embeddings(asked)
        words = str(asked["messages"][-1].get("content"))
        if "Content:" in words:
            self.asked.set()
            self._free.wait(HOLD_S_MAX)
            if self.failures:
                self.failures -= 1
                return 500, {"error": {"message": "told to fail", "type": "server_error"}}
        return 200, _completion(asked, words)


def _embeddings(asked: dict[str, Any]) -> dict[str, Any]:
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    rows: list[Any] = [_vector(str(text)) for text in texts]
    if asked.get("encoding_format") == "base64":
        rows = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in rows]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    return {"object": "list", "model": "stub", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def _vector(text: str) -> list[float]:
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()) or ["nothing"]:
        number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        vector[number % DIMENSIONS] += 1.0 if number >> 40 & 1 else -1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


def _completion(asked: dict[str, Any], words: str) -> dict[str, Any]:
    tools = [tool["function"]["name"] for tool in asked.get("tools") or []]
    message: dict[str, Any] = {"role": "assistant", "content": json.dumps({"facts": _facts(words)})}
    if tools:
        name = "done" if "done" in tools else tools[0]
        arguments = json.dumps({"reason": "stub", "query": "stub", "answer": "stub answer"})
        call = {"id": "call", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    known = {"id": "stub", "object": "chat.completion", "created": 0, "model": "stub"}
    return {**known, "choices": [choice], "usage": usage}


def _facts(words: str) -> list[dict[str, Any]]:
    lines = [line.strip() for line in re.split(r"(?m)^Content:\n", words)[-1].splitlines() if line.strip()]
    blank = dict.fromkeys(("when", "where", "who", "why"), "N/A")
    kind = {"fact_kind": "conversation", "fact_type": "world", "entities": []}
    return [{"what": line[:500], **blank, **kind} for line in lines[:10]]
