"""The rows that a history left in the database, read as plain values by a separate connection."""

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

import apsw

from holdfast.turns.journal import AnyBody, decode_body

Row: TypeAlias = dict[str, Any]

TABLES = (
    "action",
    "address",
    "approval",
    "cursor",
    "delivery",
    "entry",
    "finalisation",
    "inbound",
    "lane",
    "mailbox",
    "memory_batch",
    "memory_op",
    "operation",
    "reply",
    "session",
    "spend",
    "summary",
    "tombstone",
    "turn",
)
# The owners of claims are not part of the outcome; a restart may change them.
PASSING = {"mailbox": {"owner", "claim", "claimed_at"}, "lane": {"owner", "claim"}, "finalisation": {"claim"}}
_ROWID = {"entry": "rowid as written,", "reply": "rowid as written,"}  # the order in which they were written
UNFINISHED = """
select 'mailbox ' || id || ' holds ' || depth from mailbox where depth <> 0
union all select 'mailbox ' || id || ' is claimed by ' || owner from mailbox where owner is not null
union all select 'message ' || message || ' is ' || state from inbound where state in ('waiting', 'in_turn')
union all select 'turn ' || open_turn || ' of ' || id || ' is open' from session where open_turn is not null
union all select 'operation ' || id || ' is open' from operation where ended_at is null
union all select 'delivery ' || id || ' is ' || state from delivery where state in ('scheduled', 'sending', 'uncertain')
union all select 'lane ' || place || ' of ' || provider || ' is held by ' || owner from lane where owner is not null
union all select 'lane ' || place || ' of ' || provider || ' is to be looked at' from lane where due_at is not null
union all select id || ' is ' || step from finalisation where ended_at is null
union all select provider || ' still waits for ' || stream from cursor where due_at is not null
union all select 'draft ' || id || ' is to be let go' from draft where receipt is null and not exists (
  select 1 from session where session.id = draft.session and session.open_turn = draft.turn)
union all select 'forgetting ' || id || ' is not scrubbed' from forget where scrubbed_at is null
union all select 'forgetting ' || id || ' is not swept' from forget where swept_at is null and not exists (
  select 1 from forget_part join delivery on delivery.n = forget_part.n
   where forget_part.forget = forget.id and delivery.state <> 'delivered')
limit 1"""

PRUNED = "pruned_inbound"
# Words are not kept: a person may be forgotten after their messages were pruned.
KEEP_PRUNED = f"""
create table {PRUNED} as select * from inbound where false;
create trigger keep_pruned before delete on inbound begin
  insert into {PRUNED} select * from inbound where message = old.message;
  update {PRUNED} set body = x'' where message = old.message;
end;"""  # noqa: S608
LANDED = """
select 1 from delivery
 where agent = ? and provider = ? and state in ('delivered', 'retracted') and op <> 'erase' limit 1"""
UNPRUNED = "select 'message ' || message || ' is not pruned' from inbound limit 1"
UNEXPIRED = "select 'session ' || id || ' is ' || state from session where state in ('open', 'expiring') limit 1"
UNPOSTED = """
select 'reply ' || n || ' is ' || state from reply
 where state in ('pending', 'attempting') and channel = '{}' limit 1"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Every row of the tables that matter, by its key; entries and replies in the order in which they were written."""

    tables: dict[str, list[Row]]
    integrity: str

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables[table]

    def by(self, table: str, *columns: str) -> dict[Any, list[Row]]:
        grouped: dict[Any, list[Row]] = defaultdict(list)
        for row in self.tables[table]:
            key = row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns)
            grouped[key].append(row)
        return grouped

    def digest(self) -> str:
        kept = blake2b(digest_size=16)
        for table in TABLES:
            for row in self.tables[table]:
                shown = [value for name, value in row.items() if name not in PASSING.get(table, ())]
                kept.update(repr(shown).encode())
        return kept.hexdigest()


def read_rows(db: apsw.Connection) -> Rows:
    """All rows; pruned ones as they were before pruning, since every acknowledged message is judged."""
    tables = {table: _rows(db, f"select {_ROWID.get(table, '')} * from {table} order by 1, 2") for table in TABLES}  # noqa: S608
    tables["inbound"] += read_tables(db, PRUNED)[PRUNED]
    return Rows(tables, str(_rows(db, "pragma integrity_check")[0]["integrity_check"]))


def read_tables(db: apsw.Connection, *tables: str) -> dict[str, list[Row]]:
    """The rows of further tables, which only some histories fill."""
    return {table: _rows(db, f"select * from {table} order by 1, 2") for table in tables}  # noqa: S608


def read_accepted(db: apsw.Connection) -> list[Row]:
    """Every accepted message, including pruned ones."""
    tables = read_tables(db, "inbound", PRUNED)
    return tables["inbound"] + tables[PRUNED]


def _rows(db: apsw.Connection, sql: str) -> list[Row]:
    cursor = db.execute(sql)
    found: list[Row] = []
    names: list[str] = []
    for values in cursor:
        names = names or [column[0] for column in cursor.get_description()]
        found.append(dict(zip(names, values, strict=True)))
    return found


def unfinished(db: apsw.Connection, *also: str) -> str | None:
    """The first unfinished piece of work, found by the built-in and the given statements."""
    for sql in (UNFINISHED, *also):
        found = db.execute(sql).fetchall()
        if found:
            return str(found[0][0])
    return None


def parked(db: apsw.Connection) -> list[str]:
    """The parked deliveries, oldest first."""
    return [str(id_) for (id_,) in db.execute("select id from delivery where state = 'parked' order by n").fetchall()]


def body_of(entry: Row) -> AnyBody:
    return _decoded(entry["kind"], bytes(entry["body"]))


@lru_cache(maxsize=4_096)
def _decoded(kind: str, body: bytes) -> AnyBody:
    return decode_body(kind, body)
