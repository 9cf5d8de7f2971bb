"""Pruning after a history with attachments: attachments of the remaining messages can still be read (I28).

It runs after all other checks, because the other invariants compare every message with its row.
"""

from collections.abc import Callable

import apsw

from holdfast.inbox.chat_message import hash_of
from holdfast.runtime.runtime import Runtime
from holdfast.store.upkeep_sql import prune_messages
from holdfast.testing.clock import START_MS
from holdfast.testing.evidence import Found
from holdfast.testing.retrying_client import RetryingClient
from holdfast.testing.rows import read_tables

BATCH = 100
MIDDLE = """
select inbound.at from inbound join enclosure on enclosure.message = inbound.message
 order by inbound.at limit 1 offset (select count(distinct message) / 2 from enclosure)"""
TABLES = ("attachment", "enclosure", "inbound")


async def pruned(client: RetryingClient, observe: Callable[[], apsw.Connection], now_s: float) -> Found:
    """Prune the older half of the messages with attachments, and return what is wrong with the others."""
    middle = observe().execute(MIDDLE).fetchall()
    if not middle:
        return iter(())
    older_than_ms = START_MS + int(now_s * 1000) - int(str(middle[0][0]))
    before = {(row["message"], row["hash"]) for row in read_tables(observe(), "enclosure")["enclosure"]}

    async def prune(runtime: Runtime) -> int:
        return await runtime.db.write(
            prune_messages(older_than_ms=older_than_ms, limit=BATCH, secret=runtime.ports.secret)
        )

    await client.until_heard("prune", prune)
    return _wrong(observe(), before)


def _wrong(db: apsw.Connection, before: set[tuple[str, str]]) -> Found:
    tables = read_tables(db, *TABLES)
    kept = {row["message"] for row in tables["inbound"]}
    enclosed = {(row["message"], row["hash"]) for row in tables["enclosure"]}
    expected = {(message, hash_) for message, hash_ in before if message in kept}
    for message, hash_ in sorted(expected ^ enclosed):
        yield f"after pruning {message}, which is kept: {message in kept}, has {hash_}: {(message, hash_) in enclosed}"
    bytes_kept = {row["hash"] for row in tables["attachment"] if hash_of(bytes(row["body"])) == row["hash"]}
    for hash_ in sorted(bytes_kept ^ {hash_ for _, hash_ in expected}):
        yield f"after pruning the bytes of {hash_} are kept: {hash_ in bytes_kept}"
