"""Extraction by the practice model: sentences that match the patterns of facts become notes.

It does not recognise two notes with the same meaning. A consolidation removes notes that another one contains word for
word, and adds none.
"""

import json
from collections.abc import Iterator, Sequence

from holdfast.models.practice_text import facts
from holdfast.sessions.extraction import CONSOLIDATE_MARK, NOTES_MARK, TALK_MARK
from holdfast.turns.context import ModelMessage

NOTES_MAX = 16
NOTE_CHARS_MAX = 200


def extract(messages: Sequence[ModelMessage]) -> str:
    """The answer to an extraction request, in its documented JSON shape."""
    task = messages[0].content if messages else ""
    head, _, talk = (messages[-1].content if messages else "").partition(f"\n{TALK_MARK}\n")
    notes = list(_values(head.removeprefix(NOTES_MARK)))
    changes = _consolidated(notes) if CONSOLIDATE_MARK in task else _added(notes, _values(talk))
    return json.dumps({"changes": changes}, ensure_ascii=False)


def _values(lines: str) -> Iterator[dict[str, object]]:
    for line in lines.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # a request without our format
            continue
        if isinstance(value, dict):
            yield value


def _added(notes: list[dict[str, object]], talk: Iterator[dict[str, object]]) -> list[dict[str, object]]:
    known = {str(note.get("text", "")).casefold() for note in notes}
    found: dict[str, str] = {}
    for line in talk:
        if line.get("role") == "user":
            found.update((fact[:NOTE_CHARS_MAX], _target(fact)) for fact in facts(str(line.get("text", ""))))
    fresh = [(text, target) for text, target in found.items() if text.casefold() not in known]
    return [{"verb": "add", "target": target, "text": text} for text, target in fresh[-NOTES_MAX:]]


def _target(fact: str) -> str:
    """A first-person fact is about the user; every other is about the work."""
    return "user" if fact.casefold().startswith(("i ", "i'm", "my ")) else "memory"


def _consolidated(notes: list[dict[str, object]]) -> list[dict[str, object]]:
    free = [note for note in notes if "fixed" not in note]
    held = [
        note
        for note in free
        if any(note is not other and _contains(other, note) and note["target"] == other["target"] for other in free)
    ]
    return [{"verb": "remove", "entries": [note["entry"]]} for note in held]


def _contains(larger: dict[str, object], smaller: dict[str, object]) -> bool:
    whole, part = str(larger.get("text", "")), str(smaller.get("text", ""))
    return len(whole) > len(part) and part in whole
