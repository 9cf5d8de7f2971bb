"""Writing parcels into the index. Every function runs inside the caller's transaction and may be repeated.

Rule 1: a delivery takes effect once: its id goes into `unit` with its lines, and a known id changes nothing.
Rule 2: an erased delivery stays erased: its id remains as a tombstone, and a late copy is refused.
Rule 3: identifiers must be well-formed; texts may hold any character.
Rule 4: a new line is only stored. Its postings are written together with those of many other lines (`index_fresh`),
        because lines that share a stem share the write. A query compares the lines that wait with the question itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import apsw

from holdfast.memory.delivery import Delivered, Erasure, MemoryNote, Op, Outcome, Parcel, Refused
from holdfast.memory.visibility import is_group, person_scope
from holdfast.providers.local import postings
from holdfast.providers.local.postings import IndexScope, LineScopes
from holdfast.providers.local.ranking import POSITION_BITS, POSITION_MASK, SCENE_LINES_MAX, line_id
from holdfast.providers.local.tokenizer import stems, tells_time, words

SCENE_GAP_MS = 6 * 3_600_000  # a pause of this length ends a scene
FRESH_MAX = 128  # lines without postings
INDEXED_AT_ONCE = 2_000  # lines whose postings are in memory together
Row: TypeAlias = dict[str, str | int]
_NOTE = "\n"  # prefix of the scope in the unit of a note: no principal contains a line end

_INSERT = """
insert into line (id, delivery, seq, kind, agent, session, address, in_group, principal, speaker, target, turn,
                  at, size, asks, dated, stems, likeness)
values (:id, :delivery, :seq, :kind, :agent, :session, :address, :in_group, :principal, :speaker, :target, :turn,
        :at, :size, :asks, :dated, :stems, :likeness)
"""
_ABSENT: Row = {"address": "", "in_group": False, "speaker": "", "target": "", "turn": 0}  # of a note
_STORED = "id, kind, agent, session, address, in_group, principal, stems"
_FRESH = f"select {_STORED} from fresh join line using (id) order by id limit ?"  # noqa: S608 - our own constants


class StoredLine(NamedTuple):
    """What the postings of a line are made of."""

    id: int
    kind: str
    agent: str
    session: str
    address: str
    in_group: int
    principal: str
    stems: str

    @property
    def scopes(self) -> LineScopes:
        return postings.line_scopes(
            self.kind, self.agent, self.session, self.address, self.principal, in_group=bool(self.in_group)
        )


def refusal(parcel: Parcel) -> Refused | None:
    """Why a parcel can never be indexed, checked before the first write."""
    inputs = parcel.naming
    speakers = [line.speaker for turn in parcel.turns for line in turn.lines]
    subject = parcel.note.scope if parcel.note else ""
    names = (parcel.id, inputs.agent, inputs.session, inputs.principal, inputs.address, subject, *speakers)
    if any(0xD800 <= ord(char) <= 0xDFFF for name in names if not name.isascii() for char in name):
        return Refused("a name in it has a lone surrogate, which the index cannot store")
    numbers = [line.seq for turn in parcel.turns for line in turn.lines]
    if len(set(numbers)) < len(numbers):
        return Refused("two of its lines have the same number")
    return None


def apply(db: apsw.Connection, parcel: Parcel) -> Outcome:
    """Apply one parcel, unless it was applied before."""
    found = db.execute("select is_erased from unit where delivery = ?", (parcel.id,)).fetchall()
    if found:
        return Refused("it was erased, so it is not indexed again") if found[0][0] else Delivered(parcel.id)
    if wrong := refusal(parcel):
        return wrong
    if parcel.op is Op.ERASE and parcel.erasure is not None:
        erase(db, parcel.erasure)
    db.execute(
        "insert into unit (delivery, agent, session, principal) values (?, ?, ?, ?)",
        (parcel.id, *(_owner(parcel) if parcel.op is not Op.ERASE else ("", "", ""))),
    )
    if parcel.op is Op.RETAIN:
        _retain(db, parcel)
    elif parcel.op is Op.RETRACT and parcel.of is not None:
        for turn in parcel.gone:
            delete_lines(db, "delivery = ? and turn = ?", (parcel.of, turn))
    elif parcel.op is Op.REMEMBER and parcel.note is not None:
        _remember(db, parcel, parcel.note)
    return Delivered(parcel.id)


def _owner(parcel: Parcel) -> tuple[str, str, str]:
    """Agent, session and principal whose erasure includes the parcel. A note has its scope instead of both."""
    inputs = parcel.naming
    if parcel.note is not None:
        return inputs.agent, "", f"{_NOTE}{parcel.note.scope}"
    return inputs.agent, inputs.session, inputs.principal


# --- turns -----------------------------------------------------------------------------------------


def _retain(db: apsw.Connection, parcel: Parcel) -> None:
    inputs = parcel.naming
    newest = "select id, at from line where session = ? and kind = 'said' order by id desc limit 1"
    last, last_at = next(db.execute(newest, (inputs.session,)), (0, 0))
    shared: Row = {"kind": "said", "address": inputs.address, "principal": inputs.principal}
    shared["in_group"] = is_group(inputs.address)
    for turn in parcel.turns:
        for line in turn.lines:
            last, last_at = _place(db, last, line.at - last_at), line.at
            row: Row = {"id": last, "seq": line.seq, "speaker": line.speaker, "turn": turn.n, "at": line.at}
            _insert(db, parcel, shared | row, line.text)
            db.execute("insert or ignore into voice values (?, ?, ?)", (inputs.agent, inputs.address, line.speaker))


def _place(db: apsw.Connection, last: int, pause_ms: int) -> int:
    """The number of a session's next line: in the scene of the last one, or in a new scene."""
    if last and pause_ms <= SCENE_GAP_MS and last & POSITION_MASK < SCENE_LINES_MAX:
        return last + 1
    (newest,) = next(db.execute("select coalesce(max(id), 0) from line"))
    return line_id((newest >> POSITION_BITS) + 1, 1)


def _insert(db: apsw.Connection, parcel: Parcel, row: Row, text: str) -> None:
    said = list(words(text))
    cut, asks = stems(said), text.rstrip().endswith("?")
    line: Row = {
        **_ABSENT,
        **row,
        "delivery": parcel.id,
        "agent": parcel.naming.agent,
        "session": parcel.naming.session,
        "size": len(cut),
        "asks": asks,
        "dated": tells_time(said),
        "stems": f" {' '.join(cut)} ",
    }
    line["likeness"] = likeness(str(line["stems"]), asks, str(line["speaker"]))
    db.execute(_INSERT, line)
    db.execute("insert into body values (?, ?)", (row["id"], text.encode("utf-8", "surrogatepass")))
    db.execute("insert into fresh values (?)", (row["id"],))


def likeness(stems: str, asks: int, speaker: str) -> int:
    """A number that two lines share if ranking cannot tell them apart by their words, kind and speaker."""
    text = f"{int(asks)}{speaker}\n{stems}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


# --- notes -----------------------------------------------------------------------------------------


def _remember(db: apsw.Connection, parcel: Parcel, note: MemoryNote) -> None:
    """Store the current note. A note that replaces an unknown one is stored all the same."""
    if note.op in ("replace", "remove"):
        where = "kind = 'note' and agent = ? and principal = ? and target = ?"
        where += " and exists (select 1 from body where body.id = line.id and body.text = ?)"
        old_text = note.old_text.encode("utf-8", "surrogatepass")
        delete_lines(db, where, (parcel.naming.agent, note.old_scope, note.target, old_text))
    if note.op == "remove":
        return
    row: Row = {"id": _place(db, 0, 0), "seq": note.seq, "kind": "note", "target": note.target, "at": note.at}
    _insert(db, parcel, row | {"principal": note.scope}, note.text)


# --- erasing ---------------------------------------------------------------------------------------


def erase(db: apsw.Connection, erasure: Erasure) -> None:
    """Delete every line of a session or of a person, and leave tombstones of their deliveries."""
    if erasure.session is not None:
        delete_lines(db, "agent = ? and session = ?", (erasure.agent, erasure.session))
        _bury(db, "agent = ? and session = ?", (erasure.agent, erasure.session))
    if erasure.principal is not None:
        whose, scope = (erasure.agent, erasure.principal), person_scope(erasure.principal)
        delete_lines(db, "agent = ? and principal = ? and kind = 'said'", whose)
        delete_lines(db, "agent = ? and principal = ? and kind = 'note'", (erasure.agent, scope))
        delete_lines(db, "agent = ? and speaker = ?", whose)
        _bury(db, "agent = ? and principal = ?", whose)
        _bury(db, "agent = ? and principal = ?", (erasure.agent, f"{_NOTE}{scope}"))
    for delivery in erasure.deliveries:
        delete_lines(db, "delivery = ?", (delivery,))
        db.execute(
            "insert into unit values (?, '', '', '', 1) on conflict (delivery) do update set is_erased = 1", (delivery,)
        )
    db.execute(
        "delete from voice where not exists (select 1 from line where line.agent = voice.agent"
        " and line.address = voice.address and line.speaker = voice.speaker)"
    )


def _bury(db: apsw.Connection, where: str, values: tuple[str, ...]) -> None:
    db.execute(f"update unit set is_erased = 1, agent = '', session = '', principal = '' where {where}", values)  # noqa: S608


def delete_lines(db: apsw.Connection, where: str, values: tuple[str | int | bytes, ...]) -> None:
    gone = [StoredLine._make(row) for row in db.execute(f"select {_STORED} from line where {where}", values)]  # noqa: S608
    waiting = {row[0] for row in db.execute("select id from fresh")}
    for start in range(0, len(gone), INDEXED_AT_ONCE):
        some = gone[start : start + INDEXED_AT_ONCE]
        indexed = [line for line in some if line.id not in waiting]
        postings.remove(
            db, _lists(indexed, postings.numbers_of(db, {name for line in indexed for name in line.scopes.own}))
        )
        postings.discount_lines(db, [line.scopes for line in indexed])
        for table in ("fresh", "body", "line"):
            db.executemany(f"delete from {table} where id = ?", [(line.id,) for line in some])  # noqa: S608


# --- postings --------------------------------------------------------------------------------------


def index_many_fresh(db: apsw.Connection) -> None:
    """Write postings if many lines have none: a query reads all of these lines."""
    (waiting,) = next(db.execute("select count(*) from fresh"))
    if waiting >= FRESH_MAX:
        index_fresh(db)


def index_fresh(db: apsw.Connection) -> None:
    """Write the postings of the lines that have none."""
    while fresh := [StoredLine._make(row) for row in db.execute(_FRESH, (INDEXED_AT_ONCE,))]:
        postings.append(db, _lists(fresh, postings.count_lines(db, [line.scopes for line in fresh])))
        db.executemany("delete from fresh where id = ?", [(line.id,) for line in fresh])


def _lists(lines: Iterable[StoredLine], numbers: Mapping[IndexScope, int]) -> dict[int, list[int]]:
    """The lines by token."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for line in lines:
        hashes = {postings.stem_hash(stem) for stem in line.stems.split()}
        for name in line.scopes.own:
            scope = numbers[name]
            for hashed in hashes:
                found[postings.token(scope, hashed)].append(line.id)
    return found
