"""Upkeep: the store's secret, the health check's write, and pruning."""

from typing import NamedTuple

from holdfast.inbox.accept_sql import tombstone_hash
from holdfast.inbox.attachment_sql import drop_enclosures
from holdfast.kernel.ids import Instant
from holdfast.memory.visibility import AGENTS
from holdfast.store.script import Columns, Script, many, one, rows, run, verb

KEEP_KEY = "insert into secret (key, value) values (:key, :value) on conflict (key) do nothing"
FIND_KEY = "select value from secret where key = :key"
PROVE = """
insert into proof (id, at) values (1, :now) on conflict (id) do update set at = excluded.at returning at"""


class OldMessage(NamedTuple):
    message: str
    account: str
    conversation: str
    event_id: str
    body_hash: bytes
    state: str
    principal: str
    agent: str


OLD_MESSAGE = Columns(OldMessage, agent="coalesce((select agent from mailbox where mailbox.id = inbound.mailbox), '')")
OLD = f"""
select {OLD_MESSAGE} from inbound
 where state not in ('waiting', 'in_turn') and at < cast(:now as int8) - cast(:older_than_ms as int8)
 order by at limit :limit"""
BURY = """
insert into tombstone (hash, body_hash, message, state, principal, agent)
values (:hash, :body_hash, :message, :state, :principal, :agent)
on conflict (hash) do nothing"""
REMOVE = "delete from inbound where message = :message"


@verb
def load_secret(key: str, candidate: bytes) -> Script[bytes]:
    """Read the secret stored under the key; the candidate is stored if there is none."""
    yield from run(KEEP_KEY, key=key, value=candidate)
    ((value,),) = yield from rows(FIND_KEY, key=key)
    return bytes(value)


@verb
def prove_write() -> Script[Instant]:
    row = yield from one(PROVE)
    return Instant(row[0] if row else 0)


@verb
def prune_messages(*, older_than_ms: int, limit: int, secret: bytes) -> Script[int]:
    old = yield from OLD_MESSAGE.rows(OLD, older_than_ms=older_than_ms, limit=limit)
    tombstones = [
        {
            "hash": tombstone_hash(secret, one_.account, one_.conversation, one_.event_id),
            # Holdfast makes the ids of agent messages, so no other sender can reuse one for another text.
            "body_hash": b"" if one_.principal.startswith(AGENTS) else one_.body_hash,
            "message": one_.message,
            "state": one_.state,
            "principal": one_.principal,
            "agent": one_.agent,
        }
        for one_ in old
    ]
    yield from many(BURY, tombstones)
    yield from many(REMOVE, [{"message": one_.message} for one_ in old])
    yield from drop_enclosures(one_.message for one_ in old)  # attachments go with them
    return len(old)
