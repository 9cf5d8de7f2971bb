"""What lies beside the database: routing (sessions.json), transcripts, memory files, logs, the gateway's process id.

Files are read and never written. A file that cannot be parsed is left out with a reason.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.hermes.routing_index import RoutingEntry, entries_of_file

ROTATED_LOGS = (".3", ".2", ".1", "")  # oldest first
LOG_NAMES = ("agent.log", "gateway.log", "errors.log")
TRANSCRIPT_BYTES_MAX = 200 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SavedTranscript:
    """What sessions/session_<id>.json still holds: the messages as Hermes had them in memory."""

    session: str
    path: Path
    messages: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class HomeFiles:
    """The files that the checks compare with the database; `unreadable` gives the reason for each skipped file."""

    mirror: Sequence[RoutingEntry] | None = None  # None: there is no sessions.json
    mirror_raw: Mapping[str, Any] = field(default_factory=dict)
    transcripts: Mapping[str, SavedTranscript] = field(default_factory=dict)
    memories: Mapping[str, str] = field(default_factory=dict)
    backups: Mapping[str, str] = field(default_factory=dict)
    running: str = ""  # the process that has the home open, if one is known
    unreadable: Sequence[str] = ()


def read_home_files(home: Path) -> HomeFiles:
    """Read everything beside the database."""
    unreadable: list[str] = []
    sessions = home / "sessions"
    raw = _json(sessions / "sessions.json", unreadable)
    raw = raw if isinstance(raw, dict) else {}
    has_mirror = (sessions / "sessions.json").is_file()
    scope = str(sessions.resolve())
    entries = entries_of_file(raw, scope)
    memories, backups = _memories(home / "memories", unreadable)
    return HomeFiles(
        entries if has_mirror else None,
        raw,
        _transcripts(sessions, unreadable),
        memories,
        backups,
        running_process(home),
        tuple(unreadable),
    )


def log_files(home: Path) -> list[Path]:
    """The log files, rotated ones first."""
    places = [home / "logs" / f"{name}{suffix}" for name in LOG_NAMES for suffix in ROTATED_LOGS]
    return [place for place in places if place.is_file()]


def running_process(home: Path) -> str:
    """The gateway's process, if gateway.pid names one that is alive; empty otherwise."""
    found = _json(home / "gateway.pid", [])
    pid = found.get("pid") if isinstance(found, dict) else found
    if not isinstance(pid, int) or pid <= 0 or not is_alive(pid):
        return ""
    recorded, began = found.get("start_time") if isinstance(found, dict) else None, _began(pid)
    if isinstance(recorded, int) and began is not None and began != recorded:
        return ""  # a killed gateway left the file, and its number was given to another process
    return f"process {pid} (gateway.pid)"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it belongs to another user
    return True


def _began(pid: int) -> int | None:
    """When a process began, as Hermes reads it on Linux; None on other systems."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[21])
    except (OSError, IndexError, ValueError):
        return None


def _transcripts(folder: Path, unreadable: list[str]) -> dict[str, SavedTranscript]:
    found: dict[str, SavedTranscript] = {}
    for path in sorted(folder.glob("session_*.json")) if folder.is_dir() else ():
        if path.stat().st_size > TRANSCRIPT_BYTES_MAX:
            unreadable.append(f"{path.name}: it is larger than {TRANSCRIPT_BYTES_MAX >> 20} MiB")
            continue
        parsed = _json(path, unreadable)
        if not isinstance(parsed, dict) or not isinstance(parsed.get("messages"), list):
            continue
        session = str(parsed.get("session_id") or path.stem.removeprefix("session_"))
        messages = [one for one in parsed["messages"] if isinstance(one, dict)]
        found[session] = SavedTranscript(session, path, messages)
    return found


def _memories(folder: Path, unreadable: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    memories: dict[str, str] = {}
    backups: dict[str, str] = {}
    for path in sorted(folder.glob("*.md*")) if folder.is_dir() else ():
        if path.name.endswith(".lock") or not path.is_file():
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            unreadable.append(f"{path.name}: {error}")
            continue
        (backups if ".bak" in path.name else memories)[path.name] = text
    return memories, backups


def _json(path: Path, unreadable: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        unreadable.append(f"{path.name}: {error}")
        return None
