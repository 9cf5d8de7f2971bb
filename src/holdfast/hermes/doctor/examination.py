"""One examination of a home: read a snapshot, run every check, and order what they found.

Nothing in the home is written. `now` decides whether a lock has expired.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.hermes.doctor.finding import HermesFinding, Severity, finding
from holdfast.hermes.doctor.home_files import HomeFiles, log_files, read_home_files
from holdfast.hermes.doctor.lineage_checks import check_lineage
from holdfast.hermes.doctor.log_checks import check_log
from holdfast.hermes.doctor.log_lines import LogRecord, decode, merge, parse_log
from holdfast.hermes.doctor.log_runs import LogStory, read_story
from holdfast.hermes.doctor.memory_checks import check_memories
from holdfast.hermes.doctor.message_checks import check_messages
from holdfast.hermes.doctor.records import Records, read_records
from holdfast.hermes.doctor.routing_checks import check_finalisation, check_routing
from holdfast.hermes.doctor.snapshot import DatabaseSnapshot, open_snapshot
from holdfast.hermes.doctor.store_checks import check_hazards, check_store
from holdfast.hermes.doctor.unwritten_checks import check_unwritten
from holdfast.hermes.routing_index import current_routing
from holdfast.kernel.errors import InvalidInput

ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result: what was read and what was found. A log that was examined alone has no records."""

    home: str
    findings: Sequence[HermesFinding]
    records: Records | None = None
    files: HomeFiles = field(default_factory=HomeFiles)
    story: LogStory = field(default_factory=LogStory)

    @property
    def is_silent(self) -> bool:
        """Whether nothing is wrong; information does not count."""
        return all(one.severity is Severity.INFO for one in self.findings)


def examine(home: Path, now: float, logs: Sequence[Path] = ()) -> Examination:
    """Examine a home and its logs, and further log files. Raises what `open_snapshot` and `read_records` raise."""
    with open_snapshot(home / "state.db") as snapshot:
        records = read_records(snapshot)
        files = read_home_files(home)
        story = read_story(read_logs([*log_files(home), *logs], home))
        found = [*_checks(snapshot, records, files, story, now)]
    return Examination(home=str(home), findings=in_order(found), records=records, files=files, story=story)


def examine_logs(logs: Sequence[Path]) -> Examination:
    """Examine log files alone."""
    story = read_story(read_logs(logs, Path()))
    return Examination(home="", findings=in_order(check_log(story, None)), story=story)


def read_logs(paths: Sequence[Path], home: Path) -> list[LogRecord]:
    """All records of the files, each once. Raises `InvalidInput` for a file that cannot be read."""
    logs = []
    for path in paths:
        try:
            text = decode(path.read_bytes())
        except OSError as error:
            raise InvalidInput(f"{path}: the log cannot be read: {error.strerror}", path=str(path)) from error
        name = path.relative_to(home).as_posix() if path.is_relative_to(home) and home != Path() else path.name
        logs.append(parse_log(text, name))
    return merge(logs)


def _checks(
    snapshot: DatabaseSnapshot, records: Records, files: HomeFiles, story: LogStory, now: float
) -> Iterable[HermesFinding]:
    is_running = bool(files.running)
    routing = current_routing(records.routing, files.mirror)
    yield from check_store(snapshot, records, now)
    yield from check_lineage(records, story, is_running=is_running)
    yield from check_messages(records, story, files.transcripts)
    yield from check_routing(records, files.mirror)
    yield from check_unwritten(records, story, files.transcripts)
    yield from check_finalisation(records, story)
    yield from check_memories(records, files)
    yield from check_log(story, records, routing, files.transcripts)
    yield from check_hazards(snapshot, records)
    if is_running:
        yield finding("hermes_running", f"Hermes is running: {files.running}")


def in_order(found: Iterable[HermesFinding]) -> tuple[HermesFinding, ...]:
    """Errors first, then warnings, then information; in the order of the checks within each."""
    return tuple(sorted(found, key=lambda one: ORDER.index(one.severity)))
