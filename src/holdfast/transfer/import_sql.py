"""Taking over the rows of an export: one transaction, with the row of the audit trail.

Rule 1: a row whose key is not in the store is inserted. One that is there with the same content is left alone, so a
        repeated import does nothing. One with other content is a conflict, and nothing is imported.
Rule 2: what was delivered stays delivered. An open delivery is uncertain: its provider is asked first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.kernel.errors import ImportConflict
from holdfast.repair.store_repair_sql import LANES_DUE, LANES_MISSING
from holdfast.store.script import Query, Script, many, run, together, verb
from holdfast.transfer.lines import ImportedRow
from holdfast.transfer.tables import TABLES, ExportTable
from holdfast.turns.agent_pause_sql import MARK_MISSED

BATCH_ROWS = 200


@verb
def import_rows(digest: str, read: Callable[[], Iterable[ImportedRow]], by: By = PROGRAM) -> Script[Mapping[str, int]]:
    """Insert the rows that are not there; their number by table. Raises `ImportConflict`."""
    new: dict[str, int] = {}
    new_sessions: set[str] = set()
    for batch in _batches(read()):
        table = TABLES[batch[0].table]
        missing = yield from _missing(table, batch, new_sessions)
        if table.name == "session":
            new_sessions |= {str(values["id"]) for values in missing}
        yield from many(table.inserted, [{**values, **table.fixed} for values in missing])
        if missing:
            new[table.name] = new.get(table.name, 0) + len(missing)
    if new:
        yield from run(MARK_MISSED)
        yield from run(LANES_MISSING)
        yield from run(LANES_DUE)
        yield from action_sql.record(Act.SESSIONS_IMPORTED, by, digest, **new)
    return new


def _batches(found: Iterable[ImportedRow]) -> Iterator[list[ImportedRow]]:
    """Rows of one table that follow each other."""
    waiting: list[ImportedRow] = []
    for row in found:
        if waiting and (row.table != waiting[0].table or len(waiting) == BATCH_ROWS):
            yield waiting
            waiting = []
        waiting.append(row)
    if waiting:
        yield waiting


def _missing(table: ExportTable, batch: list[ImportedRow], new_sessions: set[str]) -> Script[list[dict[str, Any]]]:
    if not table.key:
        return [row.values for row in batch if row.values["session"] in new_sessions]
    keys = [{name: row.values[name] for name in table.key} for row in batch]
    found = yield from together(*(Query(table.found, dict(key)) for key in keys))
    missing: list[dict[str, Any]] = []
    for row, key, there in zip(batch, keys, found, strict=True):
        if not there:
            missing.append(row.values)
        elif [_plain(value) for value in there[0]] != list(row.values.values()):
            name = " ".join(str(value) for value in key.values())
            raise ImportConflict(f"{table.name} {name} is in the store with other content", table=table.name, key=name)
    return missing


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray | memoryview) else value
