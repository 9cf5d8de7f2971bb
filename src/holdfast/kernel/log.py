"""Structured logs: an event name from one table, fields, and whatever the current scope has pinned.

Ids, counts and durations; people's words stay in the journal. Pins live in a context variable, so they follow
awaits, tasks and callbacks; `carried` takes them into a thread.
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
    "accept.accepted": "a message became durable",
    "accept.refused": "a message was refused before it was acknowledged",
    "claim.taken": "a worker holds a mailbox",
    "claim.lost": "a younger claim holds the mailbox; this worker's work is void",
    "claim.failed": "a mailbox could not be served and is given back for a later try",
    "turn.opened": "a turn began",
    "turn.resumed": "a turn is taken up after its worker died or gave it back",
    "turn.stepped": "a step of an open turn was journaled",
    "turn.committed": "a turn ended; one line per turn",
    "turn.trimmed": "summarising failed and the oldest entries were left out of a context",
    "action.refused": "an attempt at a privileged act was refused; the audit trail has it",
    "approval.decided": "an operator decided about a tool call that waited",
    "approval.unshowable": "a tool call was not run: it needs an approval and cannot be shown to a person",
    "folder.tightened": "others could use something in the data folder; its mode was changed",
    "mcp.up": "an MCP server is connected, with how many of its tools are offered",
    "mcp.down": "an MCP server is not there, with the reason; its tools are absent until it is",
    "mcp.skipped": "a tool of an MCP server cannot be offered, or a call was cut off, with the reason",
    "command.done": "a conversation command was applied",
    "rank.unknown": "a platform could not be asked whether a sender is an admin of a group",
    "command.refused": "somebody gave a command that they may not give; nothing was changed",
    "message.observed": "messages were journaled without a turn",
    "session.branched": "an explicit branch was made",
    "compress.started": "a compression began",
    "compress.done": "a compression ended, with its outcome",
    "delivery.settled": "an attempt at a delivery ended; one line per delivery and attempt",
    "delivery.failed": "a provider's code raised; what it did before is unknown",
    "lane.lost": "a younger claim holds the lane; this courier's result is void",
    "reply.settled": "an attempt at a piece of a reply ended, with its state",
    "reply.lost": "a reply was taken from this process meanwhile; its result is void",
    "reply.resent": "an operator asked for a reply to be sent again",
    "reply.failed": "a channel's code raised; what it posted before is unknown",
    "draft.paused": "a draft could not be shown or edited, with the reason; the reply comes all the same",
    "draft.retracted": "a draft that no reply takes the place of was deleted in its chat, or will stay",
    "recall.skipped": "a provider did not answer in time, or failed; the turn goes on without it",
    "memory.refilled": "a provider's own index was damaged or gone, and is filled again from the journal",
    "memory.edited": "a memory file was edited by hand, and what became of the edit",
    "access.decided": "an operator let somebody in, refused them, or took that back",
    "identity.changed": "a link between principals was made or taken back, or an address moved",
    "forget.requested": "a person or a session was blanked; providers and files are told to erase it",
    "forget.pending": "something of what was forgotten is not erased yet; it is tried again",
    "forget.scrubbed": "the store's own files hold no byte any more of what was forgotten",
    "finish.begun": "an epoch ended because nobody came back; its range is frozen",
    "finish.postponed": "an attempt to extract from an ended epoch failed, with its reason",
    "finish.lost": "a younger claim holds the finalisation, or it went with its session; this work is void",
    "finish.repeated": "an operator asked for a failed finalisation to be taken up again",
    "finish.done": "a finalisation ended, with its outcome; one line per epoch",
    "model.failed": "the model gave no usable answer",
    "node.registered": "this process may claim",
    "node.lost": "this process was taken for dead and registers again",
    "node.reaped": "claims of dead nodes were voided",
    "inbound.pruned": "old inbound rows became tombstones",
    "loop.failed": "a loop's step raised; it goes on after a pause",
    "auth.refused": "a request came with a wrong token",
    "store.damaged": "pages of the database are damaged; health says so until the process ends",
    "store.unchecked": "the pages of the database could not be checked; it is tried again after an hour",
    "http.limited": "fewer files may be open than the connections of the HTTP server need; fewer are held",
    "http.failed": "a request was answered with 500; the fault is ours",
    "channel.up": "a channel is connected to its platform",
    "channel.down": "a channel lost its platform, with the reason; it is tried again",
    "channel.behind": "a conversation, or the list of them, could not be read to its end; it is tried again later",
    "channel.skipped": "an event of a platform will never be taken, with the reason",
    "intake.refused": "somebody who may not come in wrote; nothing of it was kept",
    "intake.abandoned": "a message met a fault of ours again and again; it is refused on record and its sender told",
    "update.postponed": "an update could not be kept now; the platform sends it again",
    "attachment.refused": "the agent's space for attachments is used up; they are named without their bytes",
    "attachment.missed": "what came with a message could not be fetched; it is named without its bytes",
    "chat.unmoved": "a chat's new id could not be recorded; the platform tells it again",
    "channel.unclosed": "a channel's connections did not close in time and were left to the system",
    "runtime.opened": "the runtime is open",
    "runtime.closed": "the runtime is closed",
    "store.broken": "a commit failed with an unknown outcome; the process stops",
}

_logger = logging.getLogger("holdfast")
_logger.addHandler(logging.NullHandler())  # a library is silent until its user says where the lines go
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
    """The call with the present pins, for another thread."""
    context = contextvars.copy_context()
    return lambda: context.run(call)


def info(event: str, **fields: object) -> None:
    _write(logging.INFO, event, fields)


def warning(event: str, **fields: object) -> None:
    _write(logging.WARNING, event, fields)


def error(event: str, *, failure: BaseException | None = None, **fields: object) -> None:
    _write(logging.ERROR, event, fields, failure)


def troubles() -> Mapping[str, int]:
    """How often each event was a warning or worse, since the process began."""
    return dict(_troubles)


def _write(level: int, event: str, fields: Mapping[str, object], failure: BaseException | None = None) -> None:
    if level >= logging.WARNING:
        _troubles[event] += 1
    if _logger.isEnabledFor(level):
        raised = (type(failure), failure, failure.__traceback__) if failure else None
        record = logging.LogRecord(_logger.name, level, "", 0, event, (), raised)  # without a search for the caller
        record.fields = {**_pinned.get(), **fields}
        _logger.handle(record)


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, event, fields. What looks like a secret is hidden."""

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
