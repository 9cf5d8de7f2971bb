"""Holdfast as a memory provider of Hermes: every turn becomes durable in the spool, everything else is best effort.

This module uses the standard library alone (see spool.py). It implements the contract of Hermes 0.19.0; the hooks of
0.13 to 0.18 are a subset of it.

Rule 1: `sync_turn` returns after the turn is durable. It uses no network, no event loop and no queue, so there is
        nothing to flush: the end of a session, a switch, an eviction or a kill loses nothing.
Rule 2: a turn is filed under the session id that Hermes passes with it. The current session is used only if Hermes
        passes none, so a switch that overtakes a queued turn does not move the turn.
Rule 3: the live list `messages` is never kept or read.
Rule 4: an undo is written to the spool without a number: Hermes does not pass one. The taker finds it in state.db.
Rule 5: recall is asked for at the time of its use, with the words of that turn, within a budget. No result is kept.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

from .client import LAUNCH, ask, read_json, start  # noqa: TID252 - this folder is copied under another name
from .spool import FOLDER, SpoolError, spool_of  # noqa: TID252

NAME = "holdfast"
SUPPORTED = ("0.13", "0.14", "0.15", "0.16", "0.17", "0.18", "0.19")  # releases of Hermes that were tried
RECALL_BUDGET_S = 2.0
TOOL_BUDGET_S = 6.0
PRIMARY = ("", "primary")  # other contexts (cron, subagent, flush) are not conversations
KEPT = (
    *("agent_identity", "platform", "user_id", "user_id_alt", "user_name", "chat_id", "chat_name", "chat_type"),
    *("thread_id", "gateway_session_key", "session_title"),
)
PARENTS_MAX = 64
TOOLS = (
    {
        "name": "holdfast_recall",
        "description": "Search long-term memory: earlier conversations and what was concluded from them.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for."}},
            "required": ["query"],
        },
    },
    {
        "name": "holdfast_remember",
        "description": "Store one fact about the user in long-term memory. It is durable when the tool returns.",
        "parameters": {
            "type": "object",
            "properties": {"content": {"type": "string", "description": "The fact, as one sentence."}},
            "required": ["content"],
        },
    },
    {
        "name": "holdfast_conclusions",
        "description": "List what long-term memory has concluded about the user.",
        "parameters": {"type": "object", "properties": {}},
    },
)


class HoldfastMemory:
    """The provider of one agent. Hermes makes an instance for each agent, and may drop it without a call."""

    def __init__(self) -> None:
        self._home = ""
        self._session = ""
        self._about: dict[str, str] = {}
        self._parents: dict[str, str] = {}  # session -> the session that it continues
        self._is_primary = True
        self._lock = threading.Lock()

    # --- what Hermes asks before a conversation

    @property
    def name(self) -> str:
        return NAME

    def is_available(self) -> bool:
        """Whether a turn could be made durable: the folder of the spool can be written."""
        folder = Path(self._hermes_home()) / FOLDER
        existing = folder if folder.exists() else folder.parent
        return os.access(existing, os.W_OK | os.X_OK)

    def initialize(self, session_id: str, **kwargs: Any) -> None:  # noqa: ANN401 - the keywords of Hermes
        self._home = str(kwargs.get("hermes_home") or self._hermes_home())
        self._session = session_id or self._session
        self._about = {name: str(kwargs[name]) for name in KEPT if kwargs.get(name)}
        self._is_primary = str(kwargs.get("agent_context") or "") in PRIMARY
        parent = str(kwargs.get("parent_session_id") or "")
        if parent and parent != session_id:
            self._parents[session_id] = parent
        if self._is_primary:
            start(self._hermes_home())

    def system_prompt_block(self) -> str:
        return (
            "Long-term memory is kept by Holdfast: every turn of this conversation is stored. Use holdfast_recall to "
            "search it, and holdfast_remember for a fact that the user asks you to remember."
        )

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [dict(one) for one in TOOLS]

    def get_config_schema(self) -> list[dict[str, Any]]:
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """There are no settings: `holdfast hermes install` reads those of Hindsight and Honcho."""

    def backup_paths(self) -> list[str]:
        """The data folder, if it is outside the home. Nothing is opened but the file that `install` wrote."""
        home = self._hermes_home()
        data = read_json(Path(home) / FOLDER / LAUNCH).get("data")
        inside = Path(os.path.realpath(home))
        return [data] if isinstance(data, str) and inside not in Path(os.path.realpath(data)).parents else []

    def get_status_config(self, provider_config: dict[str, Any]) -> dict[str, Any]:
        """What `hermes memory status` shows. It is asked for now: whether turns are delivered, and how many wait."""
        home = self._hermes_home()
        answer = ask(home, {"op": "status"}, TOOL_BUDGET_S)
        shown = dict(provider_config) if isinstance(provider_config, dict) else {}
        shown["spool"] = str(Path(home) / FOLDER / "spool")
        if answer is None:
            shown["delivery"] = "stopped: turns are stored and wait; run `holdfast hermes serve`"
            return shown
        shown["delivery"] = "running"
        shown.update({name: value for name, value in answer.items() if name not in ("ok", "home")})
        return shown

    # --- a turn

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:  # noqa: ANN401
        """Nothing is prepared ahead of a turn."""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Memories for the turn that begins now; empty if the process beside Hermes does not answer in time."""
        if not query or not self._is_primary:
            return ""
        answer = self._ask("recall", query=query, session=session_id or self._session, budget=RECALL_BUDGET_S)
        return str(answer.get("text") or "") if answer else ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Nothing is fetched ahead: a result for this turn would be wrong for the next one."""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Any = None,  # noqa: ANN401, ARG002
    ) -> None:
        """Make a turn durable. Raises `SpoolError` if it is not: Hermes logs the message."""
        if not self._is_primary:
            return
        session = session_id or self._session
        self._write(
            {
                "kind": "turn",
                "session": session,
                "parent": self._parents.get(session, ""),
                "user": _text(user_content),
                "assistant": _text(assistant_content),
                "cwd": _working_directory(),
            }
        )

    # --- boundaries: nothing is buffered, so nothing is flushed

    def on_session_end(self, messages: Any) -> None:  # noqa: ANN401
        """Hermes may call this before the last `sync_turn`, and at every compaction."""

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,  # noqa: ANN401, ARG002
    ) -> None:
        """Later calls without a session id belong to the new session. A new conversation has no parent.

        After an undo (`rewound`) the taker is told to look for undone turns.
        """
        with self._lock:
            self._session = new_session_id or self._session
            lineage = parent_session_id and parent_session_id != new_session_id
            if lineage and not reset and not rewound and new_session_id not in self._parents:
                self._parents[new_session_id] = parent_session_id
                while len(self._parents) > PARENTS_MAX:
                    del self._parents[next(iter(self._parents))]
        if rewound and self._is_primary:
            self._write({"kind": "undo", "session": new_session_id or self._session})

    def on_pre_compress(self, messages: Any) -> str:  # noqa: ANN401, ARG002
        return ""

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any) -> None:  # noqa: ANN401
        """The parent's own turn contains what it made of the result."""

    def shutdown(self) -> None:
        """Nothing is pending. Other agents of the process use the spool further."""

    # --- notes

    def on_memory_write(self, action: str, target: str, content: str, metadata: dict[str, Any] | None = None) -> None:
        """Mirror an operation on MEMORY.md or USER.md."""
        if self._is_primary and action in ("add", "replace", "remove"):
            about = metadata or {}
            session = str(about.get("session_id") or self._session)
            old = str(about.get("old_text") or "")
            note = {"action": action, "target": target, "text": _text(content), "old": old}
            self._write({"kind": "note", "session": session, **note})

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ANN401, ARG002
        if tool_name == "holdfast_remember":
            return self._remember(_text(args.get("content")).strip())
        if tool_name not in ("holdfast_recall", "holdfast_conclusions"):
            return json.dumps({"error": f"there is no tool {tool_name}"})
        op, query = tool_name.removeprefix("holdfast_"), _text(args.get("query"))
        answer = self._ask(op, query=query, session=self._session, budget=TOOL_BUDGET_S)
        if answer is None:
            return json.dumps({"error": "memory does not answer now; stored turns are safe"})
        return json.dumps({name: value for name, value in answer.items() if name != "ok"}, ensure_ascii=False)

    def _remember(self, content: str) -> str:
        if not content:
            return json.dumps({"error": "content is empty"})
        note = {"action": "add", "target": "user", "text": content, "old": ""}
        try:
            self._write({"kind": "note", "session": self._session, **note})
        except SpoolError as error:
            return json.dumps({"error": f"not stored: {error.strerror or error}"})
        return json.dumps({"stored": True})

    # --- shared

    def _write(self, record: dict[str, Any]) -> None:
        spool_of(self._hermes_home()).append({**record, "about": self._about})

    def _ask(self, op: str, *, query: str, session: str, budget: float) -> dict[str, Any] | None:
        question = {"op": op, "query": query, "session": session, "about": self._about, "cwd": _working_directory()}
        return ask(self._hermes_home(), {**question, "budget_ms": round(budget * 900)}, budget)

    def _hermes_home(self) -> str:
        """The home of this agent. Without `initialize`, or if it failed, that of the process."""
        return self._home or os.environ.get("HERMES_HOME") or str(Path("~/.hermes").expanduser())


def _text(content: object) -> str:
    """The words of a message. A message with several parts is kept as JSON, so that no part is lost."""
    if isinstance(content, str):
        return content
    return "" if content is None else json.dumps(content, ensure_ascii=False, default=str)


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return ""
