"""The JSON transcripts that Hermes 0.13 and 0.14 leave beside the database, and how they complete its rows."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.hermes.importing.routing import HermesSession
from holdfast.hermes.importing.rows import FILE, HermesRow, RowState, calls_of, text_of_content
from holdfast.turns.journal import storable

TRANSCRIPT_BYTES_MAX = 512 * 1024 * 1024


class ReadableFiles:
    """Reads files of a home. What cannot be read is left out, and the reason is kept once."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def text(self, path: Path) -> str:
        try:
            if path.stat().st_size > TRANSCRIPT_BYTES_MAX:
                self.skip(path.name, f"it is larger than {TRANSCRIPT_BYTES_MAX} bytes")
                return ""
            return path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            self.skip(path.name, error.strerror or "it cannot be read")
            return ""

    def json(self, what: str, text: str) -> Any:  # noqa: ANN401 - any JSON
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            self.skip(what, f"it is not JSON: {error}")
            return None

    def skip(self, what: str, why: str) -> None:
        line = f"{what}: {why}"
        if line not in self.skipped:
            self.skipped.append(line)


class HermesTranscripts:
    """The transcripts of a folder, by session."""

    def __init__(self, folder: Path, files: ReadableFiles) -> None:
        self._files = files
        self._paths: dict[str, Path] = {}
        for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
            self._paths[path.stem] = path
        for path in sorted(folder.glob("session_*.json")) if folder.is_dir() else ():
            self._paths[path.stem.removeprefix("session_")] = path

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._paths)

    def session(self, id: str) -> HermesSession:
        """A session that only the transcript has."""
        rows = self.rows(id)
        start = rows[0].at_ms if rows else int(self._paths[id].stat().st_mtime * 1000)
        end = rows[-1].at_ms if rows else start
        return HermesSession(id=id, started_ms=start, ended_ms=end, end_reason="transcript")

    def rows(self, id: str) -> list[HermesRow]:
        """The messages of a transcript; none if it cannot be read, which is reported once."""
        path = self._paths[id]
        text = self._files.text(path)
        if path.suffix == ".jsonl":
            lines = [
                self._files.json(f"{path.name} line {n}", line) for n, line in enumerate(text.splitlines(), 1) if line
            ]
            messages: list[Any] = lines
            began = None
        else:
            log = self._files.json(path.name, text)
            log = log if isinstance(log, dict) else {}
            messages, began = log.get("messages") or [], log.get("session_start")
        at = ms_of(began) or int(path.stat().st_mtime * 1000)
        rows = []
        for n, message in enumerate(messages):
            if isinstance(message, dict) and isinstance(message.get("role"), str):
                at = ms_of(message.get("timestamp")) or at
                rows.append(_said(f"{FILE}{n}", message, at))
        return rows


def merged_rows(
    written: Sequence[HermesRow], stored: Sequence[HermesRow], state_of_rest: Callable[[Sequence[HermesRow]], RowState]
) -> Iterator[HermesRow]:
    """The stored rows, with those that only a transcript has behind the row that they follow there.

    A compression deleted the latter, so they are archived. `state_of_rest` judges what follows all stored rows.
    """
    if not stored:
        yield from written
        return
    known = {row.identity for row in stored}
    last = max((n for n, row in enumerate(written) if row.identity in known), default=-1)
    told, passed = 0, set[bytes]()
    for row in written[: last + 1]:
        if row.identity not in known:
            yield replace(row, state=RowState.ARCHIVED)
        while row.identity in known and row.identity not in passed:
            yield stored[told]
            passed.add(stored[told].identity)
            told += 1
    rest = written[last + 1 :]
    if rest:
        state = RowState.ARCHIVED if told < len(stored) else state_of_rest(rest)
        yield from (replace(row, state=state) for row in rest)
    yield from stored[told:]


def _said(key: str, message: Mapping[str, Any], at_ms: int) -> HermesRow:
    return HermesRow(
        key=key,
        role=message["role"],
        text=text_of_content(message.get("content")),
        at_ms=at_ms,
        calls=calls_of(message.get("tool_calls")) if message.get("tool_calls") else (),
        call=storable(str(message.get("tool_call_id") or "")),
        tool=storable(str(message.get("tool_name") or message.get("name") or "")),
    )


def ms_of(at: object) -> int | None:
    """A time of Hermes in milliseconds: seconds since 1970, or ISO 8601 in local time without a zone."""
    if isinstance(at, int | float):
        return int(at * 1000)
    if isinstance(at, str) and at:
        try:
            read = datetime.fromisoformat(at)
        except ValueError:
            return None
        return int(read.timestamp() * 1000)
    return None
