"""Checks of the database file: integrity, search index, locks, write-ahead log, SQLite's version, schema."""

import re
from collections.abc import Iterator

from holdfast.hermes.doctor.finding import Certainty, FindingEvidence, HermesFinding, finding
from holdfast.hermes.doctor.home_files import is_alive
from holdfast.hermes.doctor.records import CompressionLock, Records
from holdfast.hermes.doctor.schema import NEWEST, RELEASES, still_to_add
from holdfast.hermes.doctor.snapshot import DatabaseSnapshot
from holdfast.kernel.errors import HermesDatabaseCorrupt
from holdfast.store.sqlite.connection import SQLITE_SAFE_FROM, SQLITE_SAFE_PATCHES

SEARCH_TABLES = ("messages_fts", "messages_fts_trigram")
HOLDER = re.compile(r"pid=(\d+)")
EXAMPLES_MAX = 5


def check_store(snapshot: DatabaseSnapshot, records: Records, now: float) -> Iterator[HermesFinding]:
    problems = _problems(snapshot)
    search = [one for one in problems if "fts5" in one]
    if rest := [one for one in problems if one not in search]:
        what = f"the integrity check reports {len(rest)} problems, the first: {rest[0]}"
        yield finding("integrity", what, evidence=FindingEvidence(tuple(rest)))
    yield from _search(snapshot, search)
    for lock in records.locks:
        yield from _lock(lock, now)


def _problems(snapshot: DatabaseSnapshot) -> list[str]:
    """What SQLite's own check reports. A page that stops the check may belong to an index: the tables were read."""
    try:
        return [str(row[0]) for row in snapshot.rows("pragma integrity_check(20)") if row[0] != "ok"]
    except HermesDatabaseCorrupt as error:
        return [f"the check cannot go on: {error.__cause__}"]


def check_hazards(snapshot: DatabaseSnapshot, records: Records) -> Iterator[HermesFinding]:
    """What is worth knowing about a healthy database."""
    log = snapshot.source.with_name(f"{snapshot.source.name}-wal")
    if log.is_file() and (size := log.stat().st_size):
        beside = snapshot.source.stat().st_size
        what = f"{size:,} bytes are in {log.name}, beside {beside:,} bytes in {snapshot.source.name}"
        yield finding("wal_left", what, evidence=FindingEvidence(files=(log.name,)))
    writer = snapshot.writer
    if (3, 7, 0) <= writer < SQLITE_SAFE_FROM and writer not in SQLITE_SAFE_PATCHES:
        version = ".".join(map(str, writer))
        yield finding("sqlite_hazard", f"SQLite {version} last changed the database", certainty=Certainty.CERTAIN)
    if records.schema < NEWEST:
        what = f"the schema is {records.schema}, of Hermes {RELEASES[records.schema]}; 0.19.0 has {NEWEST}"
        yield finding("migration_ahead", what, evidence=FindingEvidence(still_to_add(records.schema)))


def _search(snapshot: DatabaseSnapshot, problems: list[str]) -> Iterator[HermesFinding]:
    for table in SEARCH_TABLES:
        if not snapshot.columns(f"{table}_docsize"):
            continue
        known = {int(row[0]) for row in snapshot.rows(f"select id from {table}_docsize")}  # noqa: S608 - the name is a constant
        stored = {int(row[0]) for row in snapshot.rows("select id from messages")}
        missing, extra = sorted(stored - known), sorted(known - stored)
        own = [one for one in problems if re.search(rf"\b{table}\b(?!_)", one)]
        if missing or extra or own:
            rows = (
                *(f"messages {one}: not in {table}" for one in missing[:EXAMPLES_MAX]),
                *(f"{table} {one}: no such message" for one in extra[:EXAMPLES_MAX]),
                *own,
            )
            what = f"{table} lacks {len(missing)} messages and has {len(extra)} that do not exist"
            yield finding("search_out_of_step", what, evidence=FindingEvidence(rows))


def _lock(lock: CompressionLock, now: float) -> Iterator[HermesFinding]:
    holder = HOLDER.search(lock.holder)
    is_gone = holder is not None and not is_alive(int(holder[1]))
    if lock.expires_at >= now and not is_gone:
        return
    why = "expired" if lock.expires_at < now else "belongs to a process that has ended"
    what = f"the lock of {lock.session} {why} ({lock.holder})"
    row = f"compression_locks {lock.session}: {lock.holder}"
    yield finding("stale_lock", what, lock.session, evidence=FindingEvidence((row,)))
