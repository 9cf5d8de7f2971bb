"""Writing parcels into the index. Every function runs inside the caller's transaction and may be repeated.

Rule 1: a delivery takes effect once: its id goes into `unit` with its lines, and a known id changes nothing.
Rule 2: an erased delivery stays erased: its id remains as a tombstone, and a late copy is refused.
Rule 3: identifiers must be well-formed; texts may hold any character.
"""

from dataclasses import dataclass

import apsw

from holdfast.kernel.dates import tells_time
from holdfast.memory.delivery import Delivered, Erasure, MemoryNote, Op, Outcome, Parcel, Refused, SpokenLine
from holdfast.memory.visibility import is_group, person_scope
from holdfast.providers.local.index_file import rows
from holdfast.providers.local.scope_tokens import line_scopes
from holdfast.providers.local.tokenizer import stems, words

SCENE_GAP_MS = 6 * 3_600_000  # a pause of this length ends a scene
SCENE_LINES_MAX = 64
_NOTE = "\n"  # prefix of the scope in the unit of a note: no principal contains a line end

_INSERT = """
insert into line (delivery, seq, kind, agent, session, address, in_group, principal, speaker, target, turn,
                  scene, position, at, size, asks, dated, body)
values (:delivery, :seq, :kind, :agent, :session, :address, :in_group, :principal, :speaker, :target, :turn,
        :scene, :position, :at, :size, :asks, :dated, :body)
"""


@dataclass(frozen=True, slots=True)
class SessionTail:
    """The last line of a session."""

    scene: int
    position: int
    at: int


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def decode(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass")


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
    found = rows(db, "select is_erased from unit where delivery = ?", (parcel.id,))
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
    if parcel.note is not None:
        return parcel.naming.agent, "", f"{_NOTE}{parcel.note.scope}"
    return parcel.naming.agent, parcel.session, parcel.principal


# --- turns -----------------------------------------------------------------------------------------


def _retain(db: apsw.Connection, parcel: Parcel) -> None:
    tail = _tail(db, parcel.session)
    for turn in parcel.turns:
        for line in turn.lines:
            tail = _insert_said(db, parcel, turn.n, line, tail)


def _tail(db: apsw.Connection, session: str) -> SessionTail | None:
    newest = "select scene, position, at from line where session = ? and kind = 'said' order by id desc limit 1"
    found = rows(db, newest, (session,))
    return SessionTail(*found[0]) if found else None


def _insert_said(
    db: apsw.Connection, parcel: Parcel, turn: int, line: SpokenLine, tail: SessionTail | None
) -> SessionTail:
    inputs = parcel.naming
    goes_on = tail is not None and line.at - tail.at <= SCENE_GAP_MS and tail.position < SCENE_LINES_MAX
    scene, position = (tail.scene, tail.position + 1) if tail is not None and goes_on else (0, 1)
    row: dict[str, str | int] = {
        "scene": scene,
        "position": position,
        "seq": line.seq,
        "kind": "said",
        "address": inputs.address,
        "in_group": is_group(inputs.address),
        "principal": inputs.principal,
        "speaker": line.speaker,
        "target": "",
        "turn": turn,
        "at": line.at,
    }
    scene = _insert(db, parcel, row, line.text)
    db.execute("insert or ignore into voice values (?, ?, ?)", (inputs.agent, inputs.address, line.speaker))
    return SessionTail(scene, position, line.at)


def _insert(db: apsw.Connection, parcel: Parcel, row: dict[str, str | int], text: str) -> int:
    """Insert one line with its words; its scene. A line with scene 0 begins a new scene."""
    cut = stems(text)
    db.execute(
        _INSERT,
        {
            **row,
            "delivery": parcel.id,
            "agent": parcel.naming.agent,
            "session": parcel.session,
            "size": len(cut),
            "asks": text.rstrip().endswith("?"),
            "dated": tells_time(list(words(text))),
            "body": encode(text),
        },
    )
    made = db.last_insert_rowid()
    scope = line_scopes(
        kind=str(row["kind"]),
        agent=parcel.naming.agent,
        session=parcel.session,
        address=str(row["address"]),
        in_group=bool(row["in_group"]),
        principal=str(row["principal"]),
    )
    db.execute("insert into words (rowid, stems, scope) values (?, ?, ?)", (made, " ".join(cut), " ".join(scope)))
    if not row["scene"]:
        db.execute("update line set scene = id where id = ?", (made,))
    return int(row["scene"]) or made


# --- notes -----------------------------------------------------------------------------------------


def _remember(db: apsw.Connection, parcel: Parcel, note: MemoryNote) -> None:
    """Store the current note. A note that replaces an unknown one is stored all the same."""
    if note.op in ("replace", "remove"):
        where = "kind = 'note' and agent = ? and principal = ? and target = ? and body = ?"
        delete_lines(db, where, (parcel.naming.agent, note.old_scope, note.target, encode(note.old_text)))
    if note.op == "remove":
        return
    row: dict[str, str | int] = {
        "scene": 0,
        "position": 1,
        "seq": note.seq,
        "kind": "note",
        "address": "",
        "in_group": False,
        "principal": note.scope,
        "speaker": "",
        "target": note.target,
        "turn": 0,
        "at": note.at,
    }
    _insert(db, parcel, row, note.text)


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
    gone = [(row[0],) for row in db.execute(f"select id from line where {where}", values)]  # noqa: S608
    db.executemany("delete from words where rowid = ?", gone)
    db.executemany("delete from line where id = ?", gone)
