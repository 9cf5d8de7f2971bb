"""What a Honcho server keeps, and how it changes: workspaces, sessions, peers, messages, conclusions, and the deriver.

Each rule here was measured on the real server (3.0.12), however strange:
- a message has no client id: the same one twice is two rows; so is a conclusion;
- a batch is one transaction: one bad message and none is stored;
- a message makes its workspace, session and peers; a session that is made explicitly is listed though it is empty;
- messages of a session that does not exist are an empty list, not 404;
- deleting a session takes effect when the deriver runs: until then its messages can be read, writes get 404, and
  deleting again gets 404. Its id stays dead until the API's cache expires;
- 201 means stored, not derived: derivation is put in the queue after the answer, and can be lost (`lose_derivation`);
- a database that is down is 500 for every request, while /health stays 200 (`database_down`);
- two requests that make the same thing at the same time: the loser may get 409, and nothing of it is stored
  (`creation_conflicts`; read in the server's code, not seen);
- a special token of the tokeniser anywhere in a batch is 422 for all of it; NUL is stripped.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

BATCH_MAX = 100
CONTENT_CHARS_MAX = 25_000
CONCLUSION_CHARS_MAX = 65_535
ID = re.compile(r"^[a-zA-Z0-9_-]+$")
SPECIAL_TOKENS = ("<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
START = datetime(2026, 1, 1, tzinfo=UTC)
MESSAGE_COLUMNS = {"id", "peer_id", "session_id", "metadata", "created_at", "token_count"}
CONCLUSION_COLUMNS = {"id", "observer_id", "observed_id", "session_id", "level", "created_at"}
NAMED_COLUMNS = {"id", "metadata", "created_at", "is_active"}
Row = dict[str, Any]


class Problem(Exception):
    """An answer that is not a success. `detail` repeats what was sent, as the real server does."""

    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(status)
        self.status = status
        self.detail = detail


@dataclass
class Workspace:
    sessions: dict[str, Row] = field(default_factory=dict)
    peers: dict[str, Row] = field(default_factory=dict)
    messages: list[Row] = field(default_factory=list)
    conclusions: list[Row] = field(default_factory=list)
    deleting: list[str] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    cards: dict[str, list[str]] = field(default_factory=dict)
    queue: list[Row] = field(default_factory=list)  # messages that wait for the deriver


class HonchoWorld:
    """The state and its rules; `handle` is one request."""

    def __init__(self) -> None:
        self.workspaces: dict[str, Workspace] = {}
        self.made_empty: list[str] = []  # sessions that a request made without a message
        self.lose_derivation = False
        self.prompt = False  # the deriver comes round at once, and no cache keeps what is deleted
        self.database_down = False
        self.creation_conflicts = 0  # how many writes that make a session or a peer lose the race for it
        self.locked: set[str] = set()  # sessions whose lock somebody holds for longer than the server waits
        self.poison: set[str] = set()  # words that this server refuses for reasons of its own
        self._rows = 0

    # --- what a test asks and does

    def messages(self, session: str | None = None, workspace: str = "holdfast") -> list[Row]:
        rows = self.workspaces[workspace].messages if workspace in self.workspaces else []
        return [row for row in rows if session in (None, row["session_id"])]

    def conclusions(self, workspace: str = "holdfast") -> list[Row]:
        return list(self.workspaces[workspace].conclusions) if workspace in self.workspaces else []

    def sessions(self, workspace: str = "holdfast") -> list[str]:
        return list(self.workspaces[workspace].sessions) if workspace in self.workspaces else []

    def run_deriver(self) -> None:
        """Derive what is queued and carry out deletions, as the background process does when it comes round."""
        for kept in self.workspaces.values():
            for message in kept.queue:
                self._derive(kept, message)
            kept.queue.clear()
            for session in kept.deleting:
                kept.messages[:] = [row for row in kept.messages if row["session_id"] != session]
                kept.sessions.pop(session, None)
                kept.dead.add(session)
            kept.deleting.clear()

    def expire_cache(self) -> None:
        for kept in self.workspaces.values():
            kept.dead.clear()

    def _derive(self, kept: Workspace, message: Row) -> None:
        peer = message["peer_id"]
        kept.conclusions.append(
            self._conclusion({"content": f"said: {message['content']}"[:200], "observer_id": peer, "observed_id": peer})
            | {"session_id": message["session_id"]}
        )

    # --- requests

    def handle(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if self.database_down:
            raise Problem(500, "An unexpected error occurred")
        parts = path.strip("/").split("/")
        if parts[:2] != ["v3", "workspaces"]:
            raise Problem(404, "Not Found")
        if parts[2:] == []:
            return 200, self._make_workspace(body)
        if parts[2:] == ["list"]:
            return 200, _page([self._named(name) for name in self.workspaces], query)
        workspace, *rest = parts[2:]
        if method == "DELETE" and not rest:
            return self._delete_workspace(workspace)
        action = self._action(method, rest)
        if action is None:
            raise Problem(404, "Not Found")
        return action(workspace, rest, query, body)

    def _action(self, method: str, rest: list[str]) -> Callable[..., tuple[int, Any]] | None:
        shape = tuple(part if index % 2 == 0 or part in ("list", "query") else "*" for index, part in enumerate(rest))
        return {
            ("POST", ("sessions",)): self._make_session,
            ("POST", ("sessions", "list")): self._list_sessions,
            ("DELETE", ("sessions", "*")): self._delete_session,
            ("POST", ("sessions", "*", "messages")): self._add_messages,
            ("POST", ("sessions", "*", "messages", "list")): self._list_messages,
            ("GET", ("sessions", "*", "messages", "*")): self._get_message,
            ("PUT", ("sessions", "*", "messages", "*")): self._update_message,
            ("POST", ("sessions", "*", "search")): self._search,
            ("GET", ("sessions", "*", "context")): self._context,
            ("POST", ("peers",)): self._make_peer,
            ("POST", ("peers", "list")): self._list_peers,
            ("GET", ("peers", "*", "card")): self._get_card,
            ("PUT", ("peers", "*", "card")): self._set_card,
            ("POST", ("peers", "*", "representation")): self._representation,
            ("POST", ("conclusions",)): self._add_conclusions,
            ("POST", ("conclusions", "list")): self._list_conclusions,
            ("POST", ("conclusions", "query")): self._query_conclusions,
            ("DELETE", ("conclusions", "*")): self._delete_conclusion,
        }.get((method, shape))

    # --- workspaces, sessions, peers

    def _make_workspace(self, body: Row) -> Row:
        self._kept(body["id"])
        return self._named(body["id"])

    def _kept(self, workspace: str) -> Workspace:
        _check_id(workspace)
        return self.workspaces.setdefault(workspace, Workspace())

    def _delete_workspace(self, workspace: str) -> tuple[int, Any]:
        if self.workspaces.get(workspace, Workspace()).sessions:
            raise Problem(409, "Cannot delete a workspace that has sessions")
        self.workspaces.pop(workspace, None)
        return 202, {"message": "accepted"}

    def _make_session(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        kept = self._kept(workspace)
        if body["id"] not in kept.sessions:
            self.made_empty.append(body["id"])
        row = self._session(kept, workspace, body["id"])
        if "metadata" in body:
            row["metadata"] = body["metadata"]  # replaced, not merged
        return 201, row

    def _session(self, kept: Workspace, workspace: str, name: str) -> Row:
        _check_id(name)
        if name in kept.deleting or name in kept.dead:
            raise Problem(404, f"Session {name} not found")
        return kept.sessions.setdefault(name, self._named(name) | {"workspace_id": workspace, "is_active": True})

    def _list_sessions(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        rows = _filtered(self._kept(workspace).sessions.values(), body, NAMED_COLUMNS)
        return 200, _page(rows, query)

    def _delete_session(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        kept = self._kept(workspace)
        if rest[1] not in kept.sessions or rest[1] in kept.deleting:
            raise Problem(404, f"Session {rest[1]} not found")
        kept.deleting.append(rest[1])
        kept.sessions[rest[1]]["is_active"] = False
        if self.prompt:
            self.run_deriver()
            self.expire_cache()
        return 202, {"message": "Session deleted successfully"}

    def _make_peer(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        kept = self._kept(workspace)
        self._lose_race(body["id"], makes=body["id"] not in kept.peers)
        return 201, self._peer(kept, workspace, body["id"])

    def _peer(self, kept: Workspace, workspace: str, name: str) -> Row:
        _check_id(name)
        return kept.peers.setdefault(name, self._named(name) | {"workspace_id": workspace})

    def _list_peers(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        return 200, _page(_filtered(self._kept(workspace).peers.values(), body, NAMED_COLUMNS), query)

    def _get_card(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        return 200, {"peer_card": self._kept(workspace).cards.get(rest[1])}

    def _set_card(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        self._kept(workspace).cards[rest[1]] = body["peer_card"]
        return 200, body

    def _representation(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        told = [row["content"] for row in self._kept(workspace).conclusions if row["observed_id"] == rest[1]]
        return 200, {"representation": "\n".join(told)}

    # --- messages

    def _add_messages(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        batch = body["messages"]
        if not 1 <= len(batch) <= BATCH_MAX:
            raise _unprocessable("messages", f"List should have 1 to {BATCH_MAX} items", batch)
        for message in batch:
            self._check_message(message)
        kept = self._kept(workspace)
        if rest[1] in self.locked:
            raise Problem(500, "An unexpected error occurred")
        makes = rest[1] not in kept.sessions or any(one["peer_id"] not in kept.peers for one in batch)
        self._lose_race(rest[1], makes=makes)
        self._session(kept, workspace, rest[1])
        rows = [self._message(workspace, rest[1], message) for message in batch]
        for row in rows:
            self._peer(kept, workspace, row["peer_id"])
        kept.messages += rows
        kept.queue += [] if self.lose_derivation else rows
        return 201, rows

    def _lose_race(self, name: str, *, makes: bool) -> None:
        if makes and self.creation_conflicts:
            self.creation_conflicts -= 1
            raise Problem(409, f"Unable to create or get session: {name}")

    def _check_message(self, message: Row) -> None:
        content = message["content"]
        _check_id(message["peer_id"])
        if len(content) > CONTENT_CHARS_MAX:
            raise _unprocessable("content", f"String should have at most {CONTENT_CHARS_MAX} characters", content)
        if any(token in content for token in (*SPECIAL_TOKENS, *self.poison)):
            raise _unprocessable("content", "Encountered text corresponding to disallowed special token", content)

    def _message(self, workspace: str, session: str, given: Row) -> Row:
        at = given.get("created_at") or self._now()
        content = given["content"].replace("\0", "")
        return {
            "id": self._id("msg"),
            "content": content,
            "peer_id": given["peer_id"],
            "session_id": session,
            "workspace_id": workspace,
            "metadata": given.get("metadata") or {},
            "created_at": at,
            "token_count": len(content) // 4,
        }

    def pretend(self, path: str, body: Any) -> list[Row]:
        """Rows as an answer would show them, kept nowhere."""
        _, workspace, *rest = path.strip("/").split("/")[1:]
        if rest == ["conclusions"]:
            return [self._conclusion(given) for given in body["conclusions"]]
        return [self._message(workspace, rest[1], given) for given in body["messages"]]

    def _list_messages(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        return 200, _page(_filtered(self.messages(rest[1], workspace), body, MESSAGE_COLUMNS), query)

    def _one_message(self, workspace: str, rest: list[str]) -> Row:
        found = [row for row in self.messages(rest[1], workspace) if row["id"] == rest[3]]
        if not found:
            raise Problem(404, "Message not found")
        return found[0]

    def _get_message(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        return 200, self._one_message(workspace, rest)

    def _update_message(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        row = self._one_message(workspace, rest)
        row["metadata"] = body["metadata"]  # the only thing that can be changed
        return 200, row

    def _search(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        rows = _filtered(self.messages(rest[1], workspace), body, MESSAGE_COLUMNS)
        return 200, _ranked(rows, body["query"])[: body["limit"]]

    def _context(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        return 200, {"id": rest[1], "messages": self.messages(rest[1], workspace), "summary": None}

    # --- conclusions

    def _add_conclusions(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        batch, kept = body["conclusions"], self._kept(workspace)
        if not 1 <= len(batch) <= BATCH_MAX:
            raise _unprocessable("conclusions", f"List should have 1 to {BATCH_MAX} items", batch)
        for given in batch:
            if not 1 <= len(given["content"]) <= CONCLUSION_CHARS_MAX:
                raise _unprocessable("content", "String has a wrong length", given["content"])
            if any(token in given["content"] for token in self.poison):
                raise _unprocessable("content", "Refused by this server", given["content"])
            for peer in (given["observer_id"], given["observed_id"]):
                if peer not in kept.peers:
                    raise Problem(404, f"Peer {peer} not found")
        rows = [self._conclusion(given) for given in batch]
        kept.conclusions += rows
        return 201, rows

    def _conclusion(self, given: Row) -> Row:
        content = given["content"].replace("\0", "")
        made = {"id": self._id("con"), "session_id": None, "level": "explicit", "created_at": self._now()}
        return made | given | {"content": content}

    def _list_conclusions(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        newest_first = reversed(self._kept(workspace).conclusions)
        return 200, _page(_filtered(newest_first, body, CONCLUSION_COLUMNS), query)

    def _query_conclusions(self, workspace: str, rest: list[str], query: dict[str, str], body: Row) -> tuple[int, Any]:
        rows = _filtered(self._kept(workspace).conclusions, body, CONCLUSION_COLUMNS)
        return 200, _ranked(rows, body["query"])[: body["top_k"]]

    def _delete_conclusion(self, workspace: str, rest: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        kept = self._kept(workspace)
        if not any(row["id"] == rest[1] for row in kept.conclusions):
            raise Problem(404, "Conclusion not found")
        kept.conclusions[:] = [row for row in kept.conclusions if row["id"] != rest[1]]
        return 204, None

    # --- small things

    def _id(self, kind: str) -> str:
        self._rows += 1
        return f"{kind}{self._rows:06d}"

    def _now(self) -> str:
        return (START + timedelta(seconds=self._rows)).isoformat()

    def _named(self, name: str) -> Row:
        return {"id": name, "metadata": {}, "configuration": {}, "created_at": self._now()}


def _check_id(name: str) -> None:
    if not 1 <= len(name) <= 512 or not ID.match(name):
        raise _unprocessable("id", "String should match pattern '^[a-zA-Z0-9_-]+$'", name)


def _unprocessable(where: str, message: str, given: Any) -> Problem:
    return Problem(422, [{"type": "value_error", "loc": ["body", where], "msg": message, "input": given}])


def _page(rows: list[Row], query: dict[str, str]) -> Row:
    page, size = int(query.get("page", 1)), int(query.get("size", 50))
    if not 1 <= size <= 100 or page < 1:
        raise _unprocessable("size", "Input should be 1 to 100", size)
    ordered = rows[::-1] if query.get("reverse") == "true" else rows
    shown = ordered[(page - 1) * size : page * size]
    return {"items": shown, "page": page, "size": size, "total": len(rows), "pages": -(-len(rows) // size)}


def _filtered(rows: Any, body: Any, columns: set[str]) -> list[Row]:
    filters = (body or {}).get("filters") or {}
    return [row for row in rows if _meets(row, filters, columns)]


def _meets(row: Row, filters: Row, columns: set[str]) -> bool:
    for name, wanted in filters.items():
        if name in ("OR", "AND"):
            found = [_meets(row, one, columns) for one in wanted]
            if not (any(found) if name == "OR" else all(found)):
                return False
        elif name not in columns:
            raise Problem(422, f"Unknown filter column: {name}")
        elif name == "metadata":
            if not all(_matches(row["metadata"].get(key), value) for key, value in wanted.items()):
                return False
        elif not _matches(row.get(name), wanted):
            return False
    return True


def _matches(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    tests: dict[str, Callable[[Any], bool]] = {
        "in": lambda allowed: value in allowed,
        "gte": lambda least: value is not None and value >= least,
        "lte": lambda most: value is not None and value <= most,
        "ne": lambda other: bool(value != other),
    }
    return all(tests[operator](operand) for operator, operand in wanted.items())


def _ranked(rows: list[Row], query: str) -> list[Row]:
    """By shared words, best first: near enough to a search by meaning."""
    words = set(re.findall(r"\w+", query.lower()))
    scored = [(len(words & set(re.findall(r"\w+", row["content"].lower()))), row) for row in rows]
    return [row for score, row in sorted(scored, key=lambda pair: -pair[0]) if score]
