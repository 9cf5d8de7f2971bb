"""Structured logs: an event name from one table, its fields, and the fields that the current scope has pinned.

A line has ids, counts and durations; messages are only in the journal. Pinned fields live in a context variable, so
tasks and callbacks inherit them; `carried` passes them to a thread.
"""

import contextvars
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TypeVar

from holdfast.kernel.redaction import redacted

EVENTS: Mapping[str, str] = {
    "accept.accepted": "a message was stored and acknowledged",
    "accept.refused": "a message was refused before it was acknowledged",
    "claim.taken": "a worker claimed a mailbox",
    "claim.lost": "a newer claim holds the mailbox; this worker's result is discarded",
    "claim.failed": "processing a mailbox failed; the mailbox is released and retried later",
    "turn.opened": "a turn began",
    "turn.resumed": "a turn continues after its worker died or released it",
    "turn.stepped": "a step of an open turn was journaled",
    "turn.committed": "a turn ended; one line per turn",
    "turn.trimmed": "compression failed, so the oldest entries were left out of a context",
    "action.refused": "a privileged action was refused; the audit trail records the attempt",
    "approval.decided": "an operator approved or denied a waiting tool call",
    "approval.unshowable": "a tool call was not run: it requires approval and cannot be displayed to a person",
    "folder.tightened": "other users had access to a file in the data folder; its mode was corrected",
    "mcp.up": "an MCP server is connected; the line has the number of its tools",
    "mcp.down": "an MCP server is unavailable, with the reason; its tools are absent until it reconnects",
    "mcp.skipped": "a tool of an MCP server is not offered, or a call was aborted, with the reason",
    "command.done": "a conversation command was applied",
    "rank.unknown": "a platform did not say whether a sender is an administrator of a group",
    "command.refused": "a sender used a command without permission; nothing was changed",
    "message.observed": "messages were journaled without a turn",
    "session.branched": "a session was branched on request",
    "compress.started": "a compression began",
    "compress.done": "a compression ended, with its outcome",
    "delivery.settled": "a delivery attempt ended; one line per delivery and attempt",
    "delivery.failed": "a memory provider raised an exception; whether the delivery took effect is unknown",
    "lane.lost": "a newer claim holds the lane; this dispatcher's result is discarded",
    "reply.settled": "an attempt to send a part of a reply ended, with its state",
    "reply.lost": "another process took over a reply; this process's result is discarded",
    "agent.paused": "an operator paused an agent: it begins no turn",
    "agent.resumed": "an operator resumed a paused agent",
    "repair.done": "an operator replayed, resent, gave up or settled several items",
    "reply.resent": "an operator requested that a reply be sent again",
    "reply.failed": "a channel raised an exception; whether the reply was posted is unknown",
    "draft.paused": "a draft could not be shown or edited, with the reason; the reply is still sent",
    "draft.retracted": "a draft that no reply replaces was deleted from its chat, or could not be deleted",
    "recall.skipped": "a memory provider failed or exceeded its time limit; the turn continues without it",
    "memory.refilled": "a provider's index was damaged or missing and is being rebuilt from the journal",
    "memory.edited": "a memory file was edited by hand, with the result of the edit",
    "access.decided": "an operator granted, denied or revoked a sender's access",
    "identity.changed": "accounts were linked or unlinked, or an address was moved",
    "forget.requested": "the words of a person or session were blanked; providers and files are asked to erase them",
    "forget.pending": "part of an erasure is not finished; it is retried",
    "forget.scrubbed": "the store's files no longer contain any byte of the erased words",
    "finish.begun": "an epoch expired; its range of entries is fixed for extraction",
    "finish.postponed": "an attempt to extract memory from an ended epoch failed, with the reason",
    "finish.lost": "a newer claim holds the extraction, or its session was deleted; this result is discarded",
    "finish.repeated": "an operator requested that a failed extraction be retried",
    "finish.done": "an extraction ended, with its outcome; one line per epoch",
    "model.failed": "the model gave no usable answer",
    "node.registered": "this process registered as a node and may claim work",
    "node.lost": "other nodes considered this process dead; it registers again",
    "node.reaped": "claims of dead nodes were revoked",
    "inbound.pruned": "old inbound messages were reduced to tombstones",
    "loop.failed": "a step of a loop raised an exception; the loop continues after a pause",
    "auth.refused": "a request had a wrong token",
    "store.damaged": "pages of the database are damaged; the health check reports it until the process ends",
    "store.unchecked": "the pages of the database could not be checked; the check is repeated after an hour",
    "http.limited": "the limit of open files is too low for the configured connections; the server accepts fewer",
    "http.failed": "a request was answered with status 500 because of a bug",
    "channel.up": "a channel is connected to its platform",
    "channel.down": "a channel lost the connection to its platform, with the reason; it reconnects",
    "channel.behind": "a conversation, or the list of conversations, could not be read completely; it is retried later",
    "channel.skipped": "an event of a platform is permanently ignored, with the reason",
    "intake.refused": "a sender without access wrote; nothing was stored",
    "intake.abandoned": "a message failed repeatedly because of a bug; it was refused and the sender was told",
    "update.postponed": "an update could not be stored now; the platform sends it again",
    "attachment.refused": "the agent's storage for attachments is full; only the attachment's name was stored",
    "attachment.missed": "an attachment could not be downloaded; only its name was stored",
    "chat.unmoved": "a chat's new id could not be recorded; the platform reports it again",
    "channel.unclosed": "the connections of a channel did not close in time and were abandoned",
    "spool.taken": "records of Hermes' spool were filed; the line has their number",
    "spool.dropped": "a record of Hermes' spool has no effect, with the reason",
    "spool.unfiled": "a record of Hermes' spool cannot be filed; it is kept in unfiled.jsonl, with the reason",
    "spool.damaged": "a line of Hermes' spool has a wrong checksum; its segment is kept",
    "config.reloaded": "a changed configuration is in force, with the number of changes and of those that wait",
    "config.refused": "a changed configuration has errors, so the previous one stays in force",
    "runtime.opened": "the runtime is open",
    "runtime.closed": "the runtime is closed",
    "store.broken": "a commit failed with an unknown outcome; the process stops",
}

_logger = logging.getLogger("holdfast")
_logger.addHandler(logging.NullHandler())  # a library logs nothing until its user adds a handler
_pinned: ContextVar[Mapping[str, object]] = ContextVar("holdfast_pinned", default=MappingProxyType({}))
_troubles: Counter[str] = Counter()  # bounded by EVENTS
_as_json = json.JSONEncoder(default=str, ensure_ascii=False).encode
T = TypeVar("T")


@contextmanager
def pinned(**fields: object) -> Iterator[None]:
    """Add fields to every line written inside the block, and in the tasks started there."""
    token = _pinned.set({**_pinned.get(), **fields})
    try:
        yield
    finally:
        _pinned.reset(token)


def pins() -> Mapping[str, object]:
    return _pinned.get()


def carried(call: Callable[[], T]) -> Callable[[], T]:
    """The call with the fields pinned here, for another thread."""
    context = contextvars.copy_context()
    return lambda: context.run(call)


def info(event: str, **fields: object) -> None:
    _write(logging.INFO, event, fields)


def warning(event: str, **fields: object) -> None:
    _write(logging.WARNING, event, fields)


def error(event: str, *, failure: BaseException | None = None, **fields: object) -> None:
    _write(logging.ERROR, event, fields, failure)


def troubles() -> Mapping[str, int]:
    """How often each event was logged as a warning or an error since the process started."""
    return dict(_troubles)


def _write(level: int, event: str, fields: Mapping[str, object], failure: BaseException | None = None) -> None:
    if level >= logging.WARNING:
        _troubles[event] += 1
    if _logger.isEnabledFor(level):
        raised = (type(failure), failure, failure.__traceback__) if failure else None
        record = logging.LogRecord(_logger.name, level, "", 0, event, (), raised)  # finding the caller is slow
        record.fields = {**_pinned.get(), **fields}
        _logger.handle(record)


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, event, fields. Values that look like secrets are redacted."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        text = redacted(_as_json(line))
        return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate is escaped, as JSON writes it
