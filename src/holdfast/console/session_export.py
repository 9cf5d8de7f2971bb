"""A session as a file: JSON for programs, Markdown for people."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from holdfast.api.endpoint import PRIVATE
from holdfast.kernel.ids import Instant
from holdfast.sessions.session import Session
from holdfast.turns.journal import AssistantSaid, EntryView, Forgotten, Recalled, SpokenBody, ToolReturned


def export_headers(session: Session, ending: str) -> Mapping[str, str]:
    name = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in session.id)
    return {**PRIVATE, "Content-Disposition": f'attachment; filename="{name}.{ending}"'}


def as_json(session: Session, views: Sequence[EntryView], at: Instant) -> bytes:
    """All entries as they are stored, with their kind, time and whether they were undone."""
    entries = [
        {
            "session": view.entry.session,
            "seq": view.entry.seq,
            "turn": view.entry.turn,
            "at": view.entry.at,
            "kind": view.entry.kind,
            "undone": view.undone,
            "body": view.entry.body,
        }
        for view in views
    ]
    return msgspec.json.format(msgspec.json.encode({"exported_at": at, "session": session, "entries": entries}))


def as_markdown(session: Session, views: Sequence[EntryView]) -> str:
    """What was said, in order, with the tools that were called. Times are UTC."""
    told = [f"# {_one_line(session.title or session.id)}", ""]
    told += [
        f"Session `{session.id}` of {session.agent}, opened {_time(session.opened_at)}, {session.turns} turns.",
        "",
    ]
    for view in views:
        told += _entry(view)
    return "\n".join(told)


def _entry(view: EntryView) -> list[str]:
    entry, body = view.entry, view.entry.body
    undone = ", undone" if view.undone else ""
    match body:
        case SpokenBody():
            who, text = body.speaker, body.text
        case AssistantSaid():
            calls = "".join(f"\n\n{_fenced(f'{call.name} {call.arguments}')}" for call in body.calls)
            who, text = f"agent ({body.model})" if body.model else "agent", f"{body.text}{calls}"
        case ToolReturned():
            who, text = f"tool {body.name} ({body.outcome})", _fenced(body.text)
        case Recalled():
            who, text = "memory", _fenced(body.text)
        case Forgotten():
            who, text = "erased", "*its words are erased*"
        case _:
            return []
    return [f"### {_one_line(who)}, {_time(entry.at)}, turn {entry.turn}{undone}", "", text.strip(), ""]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fenced(text: str) -> str:
    """The text between fences that are longer than any in it."""
    longest, run = 2, 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _time(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
