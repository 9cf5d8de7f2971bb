"""Read positions of conversations (D2), and the attachments of their messages."""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.inbox.mailbox import EnclosureView
from holdfast.inbox.message import Enclosure
from holdfast.kernel.ids import AgentName, MessageId, Principal, SessionId
from holdfast.store.script import Script, many, one, plain, rows, run, verb

NOTE = """
insert into watermark (account, conversation, position, event_id, at)
values (:account, :conversation, :position, :event_id, :now)
on conflict (account, conversation) do update
   set position = excluded.position, event_id = excluded.event_id, at = excluded.at
 where watermark.position < excluded.position"""
READ_UP_TO = "select conversation, position, event_id from watermark where account = :account order by conversation"
KEEP = """
insert into attachment (hash, size, at, body) values (:hash, :size, :now, :body) on conflict (hash) do nothing"""
HOLD = "select hash from attachment where hash = :hash /*lock*/"
ENCLOSE = """
insert into enclosure (message, n, hash, name, media_type, size)
values (:message, :n, :hash, :name, :media_type, :size) on conflict (message, n) do nothing"""
ENCLOSURES = "select n, hash, name, media_type, size from enclosure where message = :message order by n"
# The newest message with these bytes determines their name.
ENCLOSURE_OF = """
select enclosure.n, enclosure.hash, enclosure.name, enclosure.media_type, enclosure.size
  from enclosure join inbound on inbound.message = enclosure.message join mailbox on mailbox.id = inbound.mailbox
 where enclosure.hash = :hash and (:agent = '' or mailbox.agent = :agent)
 order by inbound.at desc, inbound.message desc limit 1"""
BYTES_OF_AGENT = """
select coalesce(sum(size), 0) from (
  select distinct enclosure.hash, enclosure.size
    from enclosure join inbound on inbound.message = enclosure.message join mailbox on mailbox.id = inbound.mailbox
   where mailbox.agent = :agent) as kept"""
BODY = "select body from attachment where hash = :hash"
DROP = "delete from enclosure where message = :message returning hash"
OF_SESSION = """
select enclosure.message from enclosure join inbound on inbound.message = enclosure.message
 where inbound.session = :session"""
OF_PERSON = """
select enclosure.message from enclosure join inbound on inbound.message = enclosure.message
 where inbound.principal = :person and inbound.mailbox in (select id from mailbox where agent = :agent)"""
# The bytes are deleted with the last message that refers to them.
DROP_UNUSED = """
delete from attachment where hash = :hash and not exists (select 1 from enclosure where enclosure.hash = :hash)"""


@verb
def note_position(account: str, conversation: str, position: int, event_id: str) -> Script[None]:
    """Record that an event was handled, stored or not; the channel does not request older events again."""
    yield from run(NOTE, account=account, conversation=conversation, position=position, event_id=event_id)


@verb
def read_positions(account: str) -> Script[Mapping[str, tuple[int, str]]]:
    found = yield from rows(READ_UP_TO, account=account)
    return {conversation: (position, event_id) for conversation, position, event_id in found}


def enclose(message: MessageId, enclosures: Sequence[Enclosure]) -> Script[None]:
    for one_ in sorted(enclosures, key=lambda one_: one_.hash):  # every transaction locks hashes in this order
        yield from _keep(one_)
    yield from many(
        ENCLOSE,
        [
            {
                "message": message,
                "n": n,
                "hash": one_.hash,
                "name": plain(one_.name),
                "media_type": plain(one_.media_type),
                "size": len(one_.body),
            }
            for n, one_ in enumerate(enclosures)
        ],
    )


def _keep(one_: Enclosure) -> Script[None]:
    """Store the bytes and lock their row until commit, so that a concurrent delete sees this reference.

    Bytes that are stored already are not sent again.
    """
    while (yield from one(HOLD, hash=one_.hash)) is None:  # repeats after a concurrent insert and delete
        yield from run(KEEP, hash=one_.hash, size=len(one_.body), body=one_.body)


def drop_enclosures(messages: Iterable[str]) -> Script[int]:
    """Delete the attachments of these messages; returns the number of references."""
    dropped: list[str] = []
    for message in sorted(set(messages)):
        dropped += [row[0] for row in (yield from rows(DROP, message=message))]
    for hash_ in sorted(set(dropped)):  # every transaction locks messages first, then bytes, each in this order
        yield from one(HOLD, hash=hash_)  # lock first: of two concurrent deletes the last one must see the other
        yield from run(DROP_UNUSED, hash=hash_)
    return len(dropped)


def drop_enclosures_of(session: SessionId) -> Script[int]:
    found = yield from rows(OF_SESSION, session=session)
    return (yield from drop_enclosures(row[0] for row in found))


def drop_enclosures_by(agent: AgentName, person: Principal) -> Script[int]:
    found = yield from rows(OF_PERSON, agent=agent, person=person)
    return (yield from drop_enclosures(row[0] for row in found))


@verb
def list_attachments(message: MessageId) -> Script[Sequence[EnclosureView]]:
    return [EnclosureView(*row) for row in (yield from rows(ENCLOSURES, message=message))]


@verb
def find_attachment(hash_: str, *, agent: str | None = None) -> Script[EnclosureView | None]:
    row = yield from one(ENCLOSURE_OF, hash=hash_, agent=agent or "")
    return EnclosureView(*row) if row else None


@verb
def count_attachment_bytes(agent: AgentName) -> Script[int]:
    row = yield from one(BYTES_OF_AGENT, agent=agent)
    return int(row[0]) if row else 0


@verb
def read_attachment(hash_: str) -> Script[bytes | None]:
    row = yield from one(BODY, hash=hash_)
    return bytes(row[0]) if row else None
