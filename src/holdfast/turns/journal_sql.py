"""Journal entries: appending them, and reading them along the ancestry of a branch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.inbox.mailbox import Claim
from holdfast.kernel.ids import Instant, SessionId
from holdfast.store.script import Columns, Query, Row, Script, many, one, rows
from holdfast.turns.journal import Body, Entry, Undone, body_tokens, decode_body, encode_body

APPEND = """
insert into entry (session, seq, turn, kind, ref, tokens, fence, lease_fence, at, body)
values (:session, :seq, :turn, :kind, :ref, :tokens, :fence,
        coalesce((select fence from mailbox where id = :mailbox), 0), :now, :body)"""
APPEND_UNCLAIMED = """
insert into entry (session, seq, turn, kind, ref, tokens, fence, lease_fence, at, body)
values (:session, :seq, :turn, :kind, :ref, :tokens, 0, 0, :now, :body)"""
PAGE = """
select seq, turn, kind, tokens, at, body from entry
 where session = :session and seq > :after and seq <= :upto order by seq limit :limit"""
UNDOS = """
select seq, turn, kind, tokens, at, body from entry
 where session = :session and kind = 'undo' and seq > :after and seq <= :upto order by seq"""
PARENT = "select parent_id, fork_seq, fork_n, fork_turn, undo_count from session where id = :session"
NO_LIMIT = 1 << 62
CHAIN_MAX = 1_000  # nested branches; a longer ancestry is a loop, which is a bug


@dataclass(frozen=True, slots=True)
class BranchLink:
    """One session in a branch's ancestry, and the part of it that the branch sees."""

    session: SessionId
    upto_seq: int
    upto_n: int
    from_turn: int  # the first turn of this link is from_turn + 1
    undone: bool  # whether it has undo entries


def append(
    session: SessionId, turn: int, last_seq: int, bodies: Sequence[Body], claim: Claim | None = None
) -> Script[int]:
    """Append entries after `last_seq`; return the new last number.

    Each row stores the writer's fence beside the lease's (I4).
    """
    batch = [
        {
            "session": session,
            "seq": last_seq + position,
            "turn": turn,
            "kind": body.kind,
            "ref": body.from_seq if isinstance(body, Undone) else None,
            "tokens": body_tokens(body),
            "fence": claim.fence if claim else 0,
            "mailbox": claim.mailbox if claim else "",
            "body": encode_body(body),
        }
        for position, body in enumerate(bodies, start=1)
    ]
    yield from many(APPEND if claim else APPEND_UNCLAIMED, batch)
    return last_seq + len(batch)


def chain(session: SessionId, *, upto_seq: int = NO_LIMIT) -> Script[tuple[BranchLink, ...]]:
    """The ancestry of a session, itself first: each ancestor with the part that the session sees."""
    links: list[BranchLink] = []
    upto_n = NO_LIMIT
    current: SessionId | None = session
    while current is not None and len(links) < CHAIN_MAX:
        row = yield from one(PARENT, session=current)
        if row is None:
            break
        links.append(BranchLink(current, upto_seq, upto_n, row[3], bool(row[4])))
        # An ancestor is visible up to the earliest fork on the way to it.
        upto_seq, upto_n = min(upto_seq, row[1]), min(upto_n, row[2])
        current = row[0]
    return tuple(links)


def undos(links: Sequence[BranchLink], *, after: int = 0) -> Script[list[Entry]]:
    """Every undo visible along the ancestry, oldest first."""
    found: list[Entry] = []
    for link in reversed(links):
        if link.undone:
            page = yield from rows(UNDOS, session=link.session, after=after, upto=link.upto_seq)
            found.extend(entry_of(link.session, row) for row in page)
    return found


def entries(links: Sequence[BranchLink], *, after: int, limit: int = NO_LIMIT) -> Script[list[Entry]]:
    """The visible entries after a sequence number, oldest first."""
    found: list[Entry] = []
    for link in reversed(links):
        if link.upto_seq <= after or len(found) >= limit:
            continue
        left = limit - len(found)
        page = yield from rows(PAGE, session=link.session, after=after, upto=link.upto_seq, limit=left)
        found.extend(entry_of(link.session, row) for row in page)
    return found


def page_query(session: SessionId, *, after: int) -> Query:
    """The query for all entries of one session after a sequence number, without inherited ones."""
    return Query(PAGE, {"session": session, "after": after, "upto": NO_LIMIT, "limit": NO_LIMIT})


class EntryRow(NamedTuple):
    seq: int
    turn: int
    kind: str
    tokens: int
    at: Instant
    body: bytes


ENTRY = Columns(EntryRow)


def entry_of(session: SessionId, row: Row) -> Entry:
    seq, turn, kind, tokens, at, body = row
    return Entry(
        seq=seq,
        turn=turn,
        body=decode_body(kind, bytes(body)),
        tokens=tokens,
        at=Instant(at),
        session=session,
    )
