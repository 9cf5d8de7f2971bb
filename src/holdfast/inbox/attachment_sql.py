"""How far each conversation was read (D2), and what came with its messages."""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.inbox.message import Enclosure
from holdfast.inbox.message_trace import EnclosureView
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
# The newest message that brought it says what it is called.
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
# The bytes go with the last message that brought them.
DROP_UNUSED = """
delete from attachment where hash = :hash and not exists (select 1 from enclosure where enclosure.hash = :hash)"""


@verb
def note_position(account: str, conversation: str, position: int, event_id: str) -> Script[None]:
    """An event was dealt with, kept or not; whatever is older is not asked for again."""
    yield from run(NOTE, account=account, conversation=conversation, position=position, event_id=event_id)


@verb
def read_positions(account: str) -> Script[Mapping[str, tuple[int, str]]]:
    found = yield from rows(READ_UP_TO, account=account)
    return {conversation: (position, event_id) for conversation, position, event_id in found}


def enclose(message: MessageId, enclosures: Sequence[Enclosure]) -> Script[None]:
    for one_ in sorted(enclosures, key=lambda one_: one_.hash):  # all take them in the same order
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
    """Held until the end, so that whoever forgets another message that brought it sees ours. Bytes that are there
    already are not sent again."""
    while (yield from one(HOLD, hash=one_.hash)) is None:  # again only when others kept and forgot it meanwhile
        yield from run(KEEP, hash=one_.hash, size=len(one_.body), body=one_.body)


def drop_enclosures(messages: Iterable[str]) -> Script[int]:
    """Forget what came with these messages; how many things."""
    dropped: list[str] = []
    for message in sorted(set(messages)):
        dropped += [row[0] for row in (yield from rows(DROP, message=message))]
    for hash_ in sorted(set(dropped)):  # all take messages first, then bytes, each in the same order
        yield from one(HOLD, hash=hash_)  # first: the last of two who forget it at the same time must see that
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
