"""One run of a real Hermes gateway without a platform: messages are handed to it, a local stub answers as the model.

Started by the Python of the environment that has Hermes: `python gateway_run.py HOME SCENARIO [key=value ...]`. It uses
nothing of Holdfast. The scenarios:

  rotate   turns until the history was compressed twice, then one turn more
  busy     /compress, and a message that is answered while the model summarises
  race     two agents compress one session at the same time
  killed   as rotate; the process kills itself at the store call number `at`
  turn     one turn (on a home that exists)
  compress /compress, then one turn, then a search for its words (on a home that exists)
"""
# ruff: noqa: T201 - the caller reads what it prints

import asyncio
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOME, SCENARIO = Path(sys.argv[1]), sys.argv[2]
OPTIONS = dict(one.split("=", 1) for one in sys.argv[3:])
WORDS = "These are words that fill the history of the conversation. "
SUMMARISING = threading.Event()
MAY_SUMMARISE = threading.Event()
SUMMARISED_TWICE = threading.Event()
TURN_CHARS = int(OPTIONS.get("chars", "1500"))


class Model(BaseHTTPRequestHandler):
    """Answers like an OpenAI-compatible server. A request for a summary waits until it is allowed."""

    def do_GET(self):
        self._send({"object": "list", "data": [{"id": "stub", "object": "model", "context_length": 64000}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages = body.get("messages", [])
        text = json.dumps(messages)
        is_summary = not body.get("tools") and ("checkpoint" in text.lower() or "summar" in text.lower())
        if is_summary:
            if SUMMARISING.is_set() and not MAY_SUMMARISE.is_set():
                SUMMARISED_TWICE.set()
            SUMMARISING.set()
            MAY_SUMMARISE.wait(120)
        answer = f"Answer to: {shortened(last_user(messages))}"
        said = "## Summary of the earlier conversation" if is_summary else answer
        reply = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": 9, "total_tokens": len(text) // 4 + 9}
        if body.get("stream"):
            self._stream(said, usage)
            return
        choice = {"index": 0, "message": reply, "finish_reason": "stop"}
        self._send(
            {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}
        )

    def _stream(self, said, usage):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
        parts = [
            {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {**head, "choices": [], "usage": usage},
        ]
        for part in parts:
            self.wfile.write(f"data: {json.dumps(part)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def last_user(messages):
    said = [one.get("content") for one in messages if one.get("role") == "user"]
    return said[-1] if said and isinstance(said[-1], str) else "nothing"


def shortened(text):
    """Its beginning and end: Hermes joins a message that was never answered with the next one."""
    return text if len(text) <= 70 else f"{text[:40]} ... {text[-25:]}"


def configure(url):
    HOME.mkdir(parents=True, exist_ok=True)
    in_place = OPTIONS.get("in_place", "")
    lines = [
        "model:",
        "  default: stub",
        "  provider: custom",
        f"  base_url: {url}",
        "  api_key: none",
        "  context_length: 64000",
        "compression:",
        "  enabled: true",
        f"  threshold: {OPTIONS.get('threshold', '0.5')}",
        "  protect_last_n: 4",
        "  protect_first_n: 1",
        *([f"  in_place: {in_place}"] if in_place else []),
        "auxiliary:",
        "  compression:",
        "    provider: custom",
        "    model: stub",
        f"    base_url: {url}",
        "    api_key: none",
        "session_reset:",
        "  mode: none",
        "agent:",
        "  gateway_timeout: 600",
        "toolsets: []",
        "platform_toolsets:",
        "  telegram: [memory]",
        "",
    ]
    (HOME / "config.yaml").write_text("\n".join(lines))
    os.environ.update(
        HERMES_HOME=str(HOME),
        GATEWAY_ALLOW_ALL_USERS="true",
        OPENAI_API_KEY="none",
        OPENAI_BASE_URL=url,
        HERMES_INFERENCE_PROVIDER="custom",
        HERMES_MODEL="stub",
    )


def killing(at):
    """Let the process kill itself at a call of the store, counted over all its writing methods."""
    import hermes_state  # type: ignore[import-not-found]

    counted = [0]
    names = ("create_session", "end_session", "append_message", "replace_messages", "archive_and_compact")

    def wrap(name):
        original = getattr(hermes_state.SessionDB, name, None)
        if original is None:
            return

        def counting(self, *given, **more):
            result = original(self, *given, **more)
            if SUMMARISING.is_set():
                counted[0] += 1
                if counted[0] == at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(hermes_state.SessionDB, name, counting)

    for name in names:
        wrap(name)


def low_threshold():
    """Compress after a few thousand tokens instead of 64,000, so that a run takes seconds."""
    from agent import context_compressor  # type: ignore[import-not-found]

    kind = context_compressor.ContextCompressor
    original = kind.__init__

    def init(self, *given, **more):
        original(self, *given, **more)
        self.threshold_tokens = int(OPTIONS.get("tokens", "6000"))
        self.tail_token_budget = 600

    kind.__init__ = init


class Chat:
    """One chat of the gateway."""

    def __init__(self, runner, chat="4242"):
        from gateway.config import Platform  # type: ignore[import-not-found]
        from gateway.platforms.base import MessageEvent  # type: ignore[import-not-found]
        from gateway.session import SessionSource  # type: ignore[import-not-found]

        self._runner, self._event, self._n = runner, MessageEvent, 0
        self._source = SessionSource(
            platform=Platform.TELEGRAM, chat_id=chat, chat_type="dm", user_id=chat, user_name="Ada"
        )

    async def say(self, text):
        self._n += 1
        event = self._event(text=text, source=self._source, message_id=str(self._n))
        return await self._runner._handle_message(event)

    @property
    def session(self):
        return self._runner.session_store.get_or_create_session(self._source).session_id


def filler(n):
    return f"Message number {n}. " + WORDS * (TURN_CHARS // len(WORDS))


async def rotate(chat, turns):
    for n in range(turns):
        print("reply", n, str(await chat.say(filler(n)))[:70], flush=True)
    print("last", str(await chat.say("What was the first message about?"))[:70], flush=True)


async def busy(chat):
    for n in range(8):
        await chat.say(filler(n))
    MAY_SUMMARISE.clear()
    SUMMARISING.clear()
    command = asyncio.create_task(chat.say("/compress"))
    await asyncio.to_thread(SUMMARISING.wait, 120)
    print("meanwhile", str(await chat.say("Remember the blue bicycle, please."))[:60], flush=True)
    MAY_SUMMARISE.set()
    print("command", str(await command)[:200], flush=True)
    print("after", str(await chat.say("And what now?"))[:60], flush=True)


async def race(chat, other):
    """Two gateways on one home: both compress the session that the chat is routed to."""
    turns = int(OPTIONS.get("turns", "6"))
    for n in range(turns):
        await chat.say(filler(n))
    MAY_SUMMARISE.clear()
    rival = other()
    words = (filler(turns), filler(f"{turns} of the other gateway"))
    replies = [asyncio.create_task(one.say(text)) for one, text in zip((chat, rival), words, strict=True)]
    # Either both summarise, or the lock lets one of them answer without.
    twice = asyncio.create_task(asyncio.to_thread(SUMMARISED_TWICE.wait, 120))
    await asyncio.wait([*replies, twice], return_when=asyncio.FIRST_COMPLETED)
    MAY_SUMMARISE.set()
    SUMMARISED_TWICE.set()
    for reply in replies:
        print("reply", str(await reply)[:70], flush=True)


async def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    configure(f"http://127.0.0.1:{server.server_address[1]}/v1")
    MAY_SUMMARISE.set()
    from hermes_logging import setup_logging  # type: ignore[import-not-found]

    setup_logging(hermes_home=HOME, mode="gateway")
    from gateway.config import load_gateway_config
    from gateway.run import GatewayRunner  # type: ignore[import-not-found]

    if SCENARIO not in {"compress", "busy"}:
        low_threshold()
    if SCENARIO == "killed":
        killing(int(OPTIONS["at"]))
    runner = GatewayRunner(load_gateway_config())
    chat = Chat(runner)
    if SCENARIO in {"rotate", "killed"}:
        await rotate(chat, int(OPTIONS.get("turns", "14")))
    elif SCENARIO == "busy":
        await busy(chat)
    elif SCENARIO == "race":
        await race(chat, lambda: Chat(GatewayRunner(load_gateway_config())))
    elif SCENARIO == "turn":
        print("turn", str(await chat.say("A new message about a giraffe."))[:120], flush=True)
    elif SCENARIO == "compress":
        print("command", str(await chat.say("/compress"))[:80], flush=True)
        print("turn", str(await chat.say("A message about a heron."))[:120], flush=True)
        from hermes_state import SessionDB

        print("found", len(SessionDB().search_messages("heron")), flush=True)
    print("session", chat.session, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)
