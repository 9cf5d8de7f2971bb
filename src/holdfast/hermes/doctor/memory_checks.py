"""Checks of MEMORY.md and USER.md: foreign text, and notes that disappeared without a tool call that removed them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, finding
from holdfast.hermes.doctor.home_files import HomeFiles
from holdfast.hermes.doctor.records import ExaminedMessage, Records

DELIMITER = "\n§\n"
FILES: Mapping[str, str] = {"memory": "MEMORY.md", "user": "USER.md"}
CHARS_MAX: Mapping[str, int] = {"MEMORY.md": 2200, "USER.md": 1375}  # Hermes' defaults
ADDING, REMOVING = "add", ("remove", "replace")


def entries_of(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(DELIMITER) if entry.strip()]


def check_memories(records: Records, files: HomeFiles) -> Iterator[HermesFinding]:
    for name, text in files.memories.items():
        if name in CHARS_MAX:
            yield from _drift(name, text)
    yield from _backups(files)
    yield from _clobbered(records, files)


def _drift(name: str, text: str) -> Iterator[HermesFinding]:
    entries = entries_of(text)
    long = [entry for entry in entries if len(entry) > CHARS_MAX[name]]
    if DELIMITER.join(entries) != text.strip():
        why = "has blanks or delimiters that Hermes would not write"
    elif long:
        why = f"has an entry of {len(long[0])} characters, more than the whole file may have"
    else:
        return
    yield finding(
        "memory_drifted", f"{name} {why}", evidence=FindingEvidence(files=(f"{name}: {len(entries)} entries",))
    )


def _backups(files: HomeFiles) -> Iterator[HermesFinding]:
    """Hermes keeps a copy when it refuses a file that something else changed."""
    for name, text in files.backups.items():
        original = name.partition(".bak")[0]
        present = files.memories.get(original, "")
        gone = [entry for entry in entries_of(text) if entry not in present]
        if gone:
            what = f"{len(gone)} entries of {name} are not in {original}"
            quoted = FindingEvidence(files=tuple(f"{name}: {entry[:80]!r}" for entry in gone))
            yield finding("memory_drifted", what, certainty=Certainty.SUSPECTED, evidence=quoted)


def _clobbered(records: Records, files: HomeFiles) -> Iterator[HermesFinding]:
    """Replay the memory tool's calls: a note that was added, and never removed or replaced, must be in its file."""
    results = {row.call: row for row in records.messages if row.role == "tool" and row.call and row.tool == "memory"}
    kept: dict[str, dict[str, ExaminedMessage]] = {name: {} for name in FILES.values()}
    doubtful: set[str] = set()
    for row in records.messages:
        for call, arguments in _memory_calls(row):
            result = results.get(call)
            if result is not None and _succeeded(result.text):
                _apply(kept, doubtful, arguments, result)
    for name, notes in kept.items():
        present = files.memories.get(name, "")
        gone = {note: row for note, row in notes.items() if note not in present}
        if gone:
            certainty = Certainty.SUSPECTED if name in doubtful else Certainty.LIKELY
            what = f"{len(gone)} notes were added to {name} and are not in it"
            quoted = tuple(f"messages {row.id}: added {note[:80]!r}" for note, row in gone.items())
            sessions = sorted({row.session for row in gone.values()})
            yield finding("memory_clobbered", what, *sessions, certainty=certainty, evidence=FindingEvidence(quoted))


def _memory_calls(row: ExaminedMessage) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if row.role != "assistant" or not row.calls or '"memory"' not in row.calls:
        return
    for call in _json(row.calls) or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name") == "memory":
            arguments = _json(str(function.get("arguments")))
            if isinstance(arguments, dict):
                yield str(call.get("id")), arguments


def _apply(
    kept: dict[str, dict[str, ExaminedMessage]],
    doubtful: set[str],
    arguments: Mapping[str, Any],
    result: ExaminedMessage,
) -> None:
    name = FILES.get(str(arguments.get("target", "memory")))
    if name is None:
        return
    if isinstance(arguments.get("operations"), list):
        doubtful.add(name)
        kept[name].clear()
        return
    action, content = arguments.get("action"), str(arguments.get("content") or "").strip()
    if action in REMOVING:
        old = str(arguments.get("old_text") or "")
        for note in [note for note in kept[name] if old and old in note]:
            del kept[name][note]
    if action in (ADDING, "replace") and content:
        kept[name][content] = result


def _succeeded(text: str) -> bool:
    found = _json(text)
    return isinstance(found, dict) and found.get("success") is True and not found.get("staged")


def _json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.loads(text)
    except ValueError:
        return None
