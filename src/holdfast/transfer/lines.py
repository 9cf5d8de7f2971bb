"""The lines of an export: a header, one line for each row, and an end with the digest of the rows.

    {"holdfast_export": 1, "holdfast": "0.4.0", "at": 1795124998428, "scope": "agent main"}
    {"table": "session", "id": "ses_…", …}
    {"end": true, "rows": 812, "sha256": "…"}

Rule 1: the digest covers every line between header and end, so two exports of the same content have the same digest,
        whenever and by whichever release they were made.
Rule 2: a file without its end was cut. It is refused before a row is looked at, and so is one with another digest.
Rule 3: a row has the columns of its table, with values of their types; bytes are text if they are UTF-8, otherwise
        {"base64": …}.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.errors import ExportInvalid, ExportNewer, HoldfastError
from holdfast.store.script import Row
from holdfast.transfer.tables import TABLES, ExportColumn, ExportTable
from holdfast.turns.journal import decode_body

FORMAT = 1
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ImportedRow(NamedTuple):
    table: str
    values: dict[str, Any]


class ExportEnd(NamedTuple):
    rows: int
    sha256: str


def header(*, holdfast: str, at: int, scope: str) -> bytes:
    return _encode({"holdfast_export": FORMAT, "holdfast": holdfast, "at": at, "scope": scope})


def line_of(table: ExportTable, row: Row) -> bytes:
    pairs = zip(table.columns, row, strict=True)
    return _encode({"table": table.name, **{one.name: _told(value) for one, value in pairs if value is not None}})


def _told(value: object) -> object:
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    raw = bytes(value)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}


class ExportDigest:
    """Counts and digests the rows of an export, as they are written or read."""

    def __init__(self) -> None:
        self.rows = 0
        self._made = hashlib.sha256()

    def add(self, line: bytes) -> None:
        self.rows += 1
        self._made.update(line + b"\n")

    def end(self) -> ExportEnd:
        return ExportEnd(self.rows, self._made.hexdigest())

    def end_line(self) -> bytes:
        rows, sha256 = self.end()
        return _encode({"end": True, "rows": rows, "sha256": sha256})


def check_whole(lines: Iterable[bytes]) -> ExportEnd:
    """Read an export to its end. Raises `ExportInvalid` and `ExportNewer`."""
    digest, end, first = ExportDigest(), None, True
    for line in lines:
        if end is not None:
            raise ExportInvalid("the export goes on behind its end")
        if first:
            _check_header(line)
            first = False
        elif (end := _end_of(line)) is None:
            digest.add(line)
    if first:
        raise ExportInvalid("the file is empty")
    if end is None:
        raise ExportInvalid(f"the export was cut behind {digest.rows} rows: its last line is missing")
    if end != digest.end():
        raise ExportInvalid("the rows of the export were changed: their digest does not match its end")
    return end


def rows_in(lines: Iterable[bytes]) -> Iterator[ImportedRow]:
    """The rows of an export that `check_whole` has read. Raises `ExportInvalid` for a row that no export has."""
    for n, line in enumerate(lines, 1):
        if n == 1 or _end_of(line) is not None:
            continue
        yield _row(line, n)


def _check_header(line: bytes) -> None:
    found = _object(line, 1)
    version = found.get("holdfast_export")
    if not isinstance(version, int) or isinstance(version, bool):
        raise ExportInvalid("the file is no export of Holdfast: its first line is another one")
    if version > FORMAT:
        raise ExportNewer(f"the export has format {version}; this release knows {FORMAT}")


def _end_of(line: bytes) -> ExportEnd | None:
    if not line.startswith(b'{"end":'):
        return None
    found = _object(line, 0)
    return ExportEnd(_whole(found.get("rows")), str(found.get("sha256")))


def _whole(value: object) -> int:
    return value if isinstance(value, int) else -1


def _object(line: bytes, n: int) -> dict[str, Any]:
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExportInvalid(f"line {n} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ExportInvalid(f"line {n} is no JSON object")
    return found


def _row(line: bytes, n: int) -> ImportedRow:
    found = _object(line, n)
    name = found.pop("table", None)
    table = TABLES.get(name) if isinstance(name, str) else None
    if table is None:
        raise ExportInvalid(f"line {n} is of the unknown table {str(name)[:40]!r}")
    values = {one.name: _value(found.pop(one.name, None), one, n) for one in table.columns}
    if found:
        raise ExportInvalid(f"line {n} has the unknown column {min(found)[:40]!r}")
    if table.name == "entry":
        _check_entry(values, n)
    return ImportedRow(table.name, values)


def _value(value: object, column: ExportColumn, n: int) -> object:
    if value is None and column.is_optional:
        return None
    if column.kind is bytes:
        return _bytes(value, column, n)
    is_right = isinstance(value, int) if column.kind is int else isinstance(value, column.kind)
    if column.kind is float and isinstance(value, int):
        return float(value)
    if not is_right or isinstance(value, bool):
        raise ExportInvalid(f"line {n}: {column.name} is no {column.kind.__name__}")
    if isinstance(value, str) and "\0" in value:
        raise ExportInvalid(f"line {n}: {column.name} holds a NUL")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ExportInvalid(f"line {n}: {column.name} is too large")
    return value


def _bytes(value: object, column: ExportColumn, n: int) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, Mapping) and isinstance(coded := value.get("base64"), str):
        try:
            return base64.b64decode(coded, validate=True)
        except binascii.Error as error:
            raise ExportInvalid(f"line {n}: {column.name} is no base64") from error
    raise ExportInvalid(f"line {n}: {column.name} is neither text nor base64")


def _check_entry(values: Mapping[str, Any], n: int) -> None:
    try:
        decode_body(values["kind"], values["body"])
    except HoldfastError as error:
        raise ExportInvalid(f"line {n}: {error}") from error
