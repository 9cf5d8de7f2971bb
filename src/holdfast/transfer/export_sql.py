"""Reading what an export holds, a page for each session, mailbox and agent: every page is one snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.store.script import Script, rows, verb
from holdfast.transfer.lines import line_of
from holdfast.transfer.tables import TABLES

SESSIONS = """
select id from session where (:agent = '' or agent = :agent) and (:mailbox = '' or mailbox = :mailbox) order by id"""
# A branch continues the journal of the session that it came from.
WITH_PARENTS = """
with recursive wanted (id) as (
  select id from session where mailbox = :mailbox
  union select session.parent_id from session join wanted on wanted.id = session.id where session.parent_id is not null)
select session.id from session join wanted on wanted.id = session.id order by session.id"""
MAILBOXES = """
select id, agent, address from mailbox where (:agent = '' or agent = :agent) order by id"""
STREAMS = "select stream from memory where (:agent = '' or agent = :agent) order by stream"
PEOPLE = "select distinct principal from turn where session = :session"
FINISHED = "inbound.state not in ('waiting', 'in_turn')"
UNDER_WAY = "select count(*) from inbound where mailbox = :mailbox and state in ('waiting', 'in_turn')"
OF_SESSION = {
    "session": "session.id = :id",
    "turn": "turn.session = :id and turn.closed_at is not null order by turn.n",
    "entry": """
entry.session = :id and entry.seq <= (select committed_seq from session where session.id = :id) order by entry.seq""",
    "summary": "summary.session = :id order by summary.n",
    "operation": "operation.session = :id and operation.ended_at is not null order by operation.id",
    "finalisation": "finalisation.session = :id order by finalisation.epoch",
    "activity": """
activity.session = :id and exists (select 1 from turn where turn.session = :id and turn.n = activity.turn
                                      and turn.closed_at is not null) order by activity.n""",
    "cursor": "cursor.stream = :id order by cursor.provider",
    "delivery": "delivery.stream = :id order by delivery.n",
}
OF_MAILBOX = {
    "mailbox": "mailbox.id = :id",
    "address": "address.mailbox_id = :id order by address.address",
    "linked_speaker": "linked_speaker.mailbox = :id order by linked_speaker.principal",
    "inbound": f"inbound.mailbox = :id and {FINISHED} order by inbound.seq, inbound.message",
    "enclosure": f"""
exists (select 1 from inbound where inbound.mailbox = :id and inbound.message = enclosure.message and {FINISHED})
 order by enclosure.message, enclosure.n""",
    "reply": """
reply.mailbox = :id
   and not exists (select 1 from inbound
                    where inbound.message = reply.message and inbound.state in ('waiting', 'in_turn'))
 order by reply.n""",
}
OF_STREAM = {
    "memory": "memory.stream = :id",
    "memory_batch": "memory_batch.stream = :id order by memory_batch.origin",
    "memory_op": "memory_op.stream = :id order by memory_op.seq",
    "cursor": "cursor.stream = :id order by cursor.provider",
    "delivery": "delivery.stream = :id order by delivery.n",
}
OF_HASH = {"attachment": "attachment.hash = :id"}
OF_PERSON = {
    "identity": """
identity.person in (select person from identity as known where known.principal = :id) order by identity.principal""",
}
HASHES = f"""
select distinct enclosure.hash from enclosure join inbound on inbound.message = enclosure.message
 where inbound.mailbox = :id and {FINISHED} order by enclosure.hash"""


@dataclass(frozen=True, slots=True)
class ExportedMailbox:
    id: str
    agent: str
    address: str


@verb
def list_mailboxes(agent: str = "") -> Script[list[ExportedMailbox]]:
    return [ExportedMailbox(*row) for row in (yield from rows(MAILBOXES, agent=agent))]


@verb
def list_exported_sessions(agent: str = "", mailbox: str = "") -> Script[list[str]]:
    """The sessions of an agent, or of a chat with those that they were branched from; all without either."""
    found = yield from (rows(WITH_PARENTS, mailbox=mailbox) if mailbox else rows(SESSIONS, agent=agent, mailbox=""))
    return [str(row[0]) for row in found]


@verb
def list_streams(agent: str = "") -> Script[list[str]]:
    return [str(row[0]) for row in (yield from rows(STREAMS, agent=agent))]


@verb
def list_speakers(session: str) -> Script[list[str]]:
    return [str(row[0]) for row in (yield from rows(PEOPLE, session=session))]


@verb
def list_hashes(mailbox: str) -> Script[list[str]]:
    return [str(row[0]) for row in (yield from rows(HASHES, id=mailbox))]


@verb
def count_under_way(mailbox: str) -> Script[int]:
    ((count,),) = yield from rows(UNDER_WAY, mailbox=mailbox)
    return int(count)


@verb
def export_session(session: str) -> Script[Sequence[bytes]]:
    return (yield from _lines(OF_SESSION, session))


@verb
def export_mailbox(mailbox: str) -> Script[Sequence[bytes]]:
    return (yield from _lines(OF_MAILBOX, mailbox))


@verb
def export_stream(stream: str) -> Script[Sequence[bytes]]:
    """The notes about one subject, with their deliveries."""
    return (yield from _lines(OF_STREAM, stream))


@verb
def export_attachment(hash_: str) -> Script[Sequence[bytes]]:
    return (yield from _lines(OF_HASH, hash_))


@verb
def export_person(principal: str) -> Script[Sequence[bytes]]:
    """The accounts that are linked to one."""
    return (yield from _lines(OF_PERSON, principal))


def _lines(of: dict[str, str], id_: str) -> Script[list[bytes]]:
    lines: list[bytes] = []
    for name, where in of.items():
        table = TABLES[name]
        found = yield from rows(f"select {table.selected} from {name} where {where}", id=id_)
        lines += [line_of(table, row) for row in found]
    return lines
