"""Upkeep: the store's secret, the health check's write, pruning, and gauges: the current amounts of waiting work."""

from collections.abc import Mapping
from dataclasses import dataclass
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
# A partial index over open rows answers each query of the gauges.
WAITING = """
select mailbox.agent, count(*) from inbound join mailbox on mailbox.id = inbound.mailbox
 where inbound.state in ('waiting', 'in_turn') group by mailbox.agent"""
OLDEST = """
select cast(:now as int8),
       (select min(ready_at) from mailbox
         where owner is null and ready_at is not null and paused <> 1 and ready_at <= :now)"""
DELIVERIES = """
select provider, state, count(*) from delivery
 where state in ('scheduled', 'sending', 'uncertain') group by provider, state"""
PARKED = """
select provider, state, count(*) from delivery
 where state = 'parked' and decided_by is null group by provider, state"""
REPLIES = """
select channel, state, count(*) from reply
 where state <> 'delivered' and decided_by is null group by channel, state"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Counts of waiting work, at the store's own time."""

    at: Instant
    messages_waiting: Mapping[str, int]  # by agent, including those of an open turn
    oldest_ready_at: Instant | None  # when the longest-waiting mailbox became ready
    deliveries: Mapping[tuple[str, str], int]  # by provider and state, without delivered ones
    replies: Mapping[tuple[str, str], int]  # by channel and state, without delivered ones


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


@verb
def read_gauges() -> Script[Gauges]:
    at, oldest = (yield from one(OLDEST)) or (0, None)
    waiting = yield from rows(WAITING)
    open_ = yield from rows(DELIVERIES)
    parked = yield from rows(PARKED)
    replies = yield from rows(REPLIES)
    return Gauges(
        at=Instant(at),
        messages_waiting=dict(waiting),
        oldest_ready_at=None if oldest is None else Instant(oldest),
        deliveries={(provider, state): count for provider, state, count in [*open_, *parked]},
        replies={(channel, state): count for channel, state, count in replies},
    )
