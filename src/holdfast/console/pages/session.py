"""One session: its timeline, its context as the model reads it, its snapshots and branches, and its export."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.console.pages.sessions import Fullness, fullness
from holdfast.console.session_export import as_json, as_markdown, export_headers
from holdfast.console.session_outline import outline_of
from holdfast.console.timeline_drawing import draw
from holdfast.kernel.errors import HoldfastError, InvalidInput
from holdfast.kernel.ids import SessionId
from holdfast.memory.lane_sql import split_id
from holdfast.monitor.session_facts import SessionPart
from holdfast.monitor.session_facts_sql import TURNS_SHOWN, read_session_facts
from holdfast.monitor.session_step import SessionStep
from holdfast.monitor.session_steps import session_steps
from holdfast.runtime.views import Prompt
from holdfast.sessions.compression import COMPRESS
from holdfast.sessions.history_sql import list_entries, read_session, read_snapshot
from holdfast.sessions.session import Session
from holdfast.sessions.summary_sql import find_open_operation
from holdfast.turns.journal import Recalled

TURN = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
PART_NAMES = {
    "instructions": "the operator's text, from the configuration",
    "tools": "the descriptions of the tools it may call",
    "notes": "the notes that this conversation may see",
    "summary": "stands for the entries that were compressed",
    "conversation": "the entries since, word for word",
    "recall": "what memory gave for the open turn",
}
ENTRIES_MAX = 100_000  # of an export
ENTRIES_SHOWN = 1_000  # of a snapshot
FORMATS = ("json", "markdown")


@dataclass(frozen=True, slots=True)
class ContextPart:
    name: str
    what: str
    tokens: int
    share: float  # of the used tokens, in per cent
    x: float  # per cent of the window
    width: float


@dataclass(frozen=True, slots=True)
class RecallSource:
    """Where a recollection comes from: an entry of a session, or something that only its provider knows."""

    provider: str
    ref: str
    session: str
    entry: str


@dataclass(frozen=True, slots=True)
class ShownContext:
    """What the model would be sent now; `problem` says why it is not known."""

    prompt: Prompt | None = None
    full: Fullness | None = None
    parts: Sequence[ContextPart] = ()
    problem: str = ""


@page("/console/sessions/{session}", query={"through": Param("the part that ends with this turn", TURN)})
async def get_session(asked: Asked) -> PageView:
    """One session, its newest turns or those up to a turn."""
    wanted = SessionId(asked.call.id("session"))
    facts = await asked.read(read_session_facts(wanted, through_turn=asked.query["through"]))
    steps = session_steps(facts)
    session = facts.session
    shown = await _context(asked, session)
    recall = _newest_recall(facts)
    first = facts.turns[0].n if facts.turns else 0
    last = facts.turns[-1].n if facts.turns else 0
    return PageView(
        "session.html",
        session.title or session.principal,
        {
            "facts": facts,
            "session": session,
            "drawing": draw(steps, facts.at),
            "life": outline_of(facts, first, last),
            "steps": steps,
            "usual": _usual(steps),
            "is_open": bool(facts.turns) and facts.turns[-1].closed_at is None,
            "shown": shown,
            "recall": recall,
            "sources": [source_of(one) for one in recall[1].sources] if recall is not None else (),
            "address": asked.call.request.url.path,
            "earlier": first - 1 if first > 1 else None,
            "later": min(last + TURNS_SHOWN, session.turns) if last < session.turns and facts.turns else None,
            "totals": (
                sum(turn.tokens_in or 0 for turn in facts.turns),
                sum(turn.tokens_out or 0 for turn in facts.turns),
            ),
        },
    )


async def _context(asked: Asked, session: Session) -> ShownContext:
    try:
        prompt = await asked.runtime.prompt(session.id)
    except HoldfastError as error:  # of an agent that is not configured any more
        return ShownContext(problem=str(error))
    full = fullness(prompt.tokens, prompt.thresholds)
    parts, x = list[ContextPart](), 0.0
    for name, tokens in prompt.parts.items():
        width = 100 * tokens / full.window
        share = 100 * tokens / max(1, prompt.tokens)
        parts.append(ContextPart(name, PART_NAMES.get(name, ""), tokens, share, round(x, 3), round(width, 3)))
        x += width
    return ShownContext(prompt=prompt, full=full, parts=parts)


def _usual(steps: Sequence[SessionStep]) -> int:
    """The step that is shown until a reader chooses one: the first trouble, else what goes on, else the newest."""
    trouble = next((n for n, step in enumerate(steps) if step.is_trouble), None)
    goes_on = [n for n, step in enumerate(steps) if step.goes_on]
    return trouble if trouble is not None else goes_on[-1] if goes_on else len(steps) - 1


def source_of(text: str) -> RecallSource:
    """Where a recollection comes from. The local provider names the delivery and the entry."""
    provider, _, ref = text.partition(":")
    delivery, _, entry = ref.rpartition("/")
    _, stream = split_id(delivery)
    is_entry = provider == "local" and stream.startswith("ses_") and entry.isdecimal()
    return RecallSource(provider, ref, stream if is_entry else "", entry if is_entry else "")


def _newest_recall(facts: SessionPart) -> tuple[int, Recalled] | None:
    """The newest recall of the shown part, with its turn."""
    return next(((one.turn, one.body) for one in reversed(facts.entries) if isinstance(one.body, Recalled)), None)


@page("/console/sessions/{session}/context")
async def get_context(asked: Asked) -> PageView:
    """The messages that the model would be sent if a turn began now."""
    wanted = SessionId(asked.call.id("session"))
    session = await asked.read(read_session(wanted))
    return PageView("context.html", "Context", {"session": session, "prompt": await asked.runtime.prompt(wanted)})


@page("/console/sessions/{session}/compress")
async def get_compress(asked: Asked) -> PageView:
    """What compressing the session now would do."""
    wanted = SessionId(asked.call.id("session"))
    session = await asked.read(read_session(wanted))
    running = await asked.read(find_open_operation(wanted, COMPRESS)) is not None
    shown = await _context(asked, session)
    tokens = shown.prompt.tokens if shown.prompt is not None else 0
    return PageView("compress.html", "Compress", {"session": session, "running": running, "tokens": tokens})


@page("/console/sessions/{session}/snapshots/{n}")
async def get_snapshot(asked: Asked) -> PageView:
    """A snapshot: the summary, and the entries that it stands for."""
    wanted, n = SessionId(asked.call.id("session")), asked.call.request.path_params["n"]
    number = int(n) if n.isascii() and n.isdigit() and len(n) < 10 else 0
    summary, covered = await asked.read(read_snapshot(wanted, number))
    session = await asked.read(read_session(wanted))
    values = {
        "session": session,
        "summary": summary,
        "covered": covered[-ENTRIES_SHOWN:],
        "left_out": len(covered) - ENTRIES_SHOWN,
    }
    return PageView("snapshot.html", f"Snapshot {number}", values)


def _format(given: str) -> str:
    if given not in FORMATS:
        raise InvalidInput(f"as = {given[:40]!r}: it is one of {', '.join(FORMATS)}")
    return given


EXPORT = {"as": Param("json or markdown", {"type": "string", "enum": list(FORMATS)}, default="json", parse=_format)}


@page("/console/sessions/{session}/export", query=EXPORT)
async def get_export(asked: Asked) -> Response:
    """The session as a file: all its entries with times, undone ones marked."""
    wanted = SessionId(asked.call.id("session"))
    session = await asked.read(read_session(wanted))
    views = await asked.read(list_entries(wanted, limit=ENTRIES_MAX))
    if asked.query["as"] == "markdown":
        return Response(
            as_markdown(session, views),
            headers=export_headers(session, "md"),
            media_type="text/markdown; charset=utf-8",
        )
    return Response(
        as_json(session, views, asked.status.at), headers=export_headers(session, "json"), media_type="application/json"
    )
