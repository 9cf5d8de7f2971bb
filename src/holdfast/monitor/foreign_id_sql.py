"""Finding messages by ids that others made: receipts of platforms and providers, tool calls, request ids of attempts.

They have no index, because nothing but a person asks for them: the newest rows are scanned, a limited number.
"""

from holdfast.store.script import Query, Script, together

SCANNED_MAX = 10_000
BY_REPLY_RECEIPT = f"""
select newest.message from (select n, message, receipt from reply order by n desc limit {SCANNED_MAX}) newest
 where newest.receipt = :id order by newest.n desc limit :limit"""
BY_DELIVERY_RECEIPT = f"""
select inbound.message
  from (select n, stream, from_turn, through_turn, receipt from delivery order by n desc limit {SCANNED_MAX}) newest
  join inbound on inbound.session = newest.stream and inbound.turn between newest.from_turn and newest.through_turn
 where newest.receipt = :id order by newest.n desc, inbound.turn, inbound.seq limit :limit"""
BY_CALL = f"""
select inbound.message
  from (select n, session, turn, call from activity order by n desc limit {SCANNED_MAX}) newest
  join inbound on inbound.session = newest.session and inbound.turn = newest.turn
 where newest.call = :id order by newest.n desc, inbound.seq limit :limit"""
ATTEMPTS = f"(select n, kind, subject, request_id from attempt order by n desc limit {SCANNED_MAX}) newest"
BY_REPLY_REQUEST = f"""
select reply.message from {ATTEMPTS} join reply on reply.n = newest.subject
 where newest.request_id = :id and newest.kind = 'reply' order by newest.n desc limit :limit"""
BY_DELIVERY_REQUEST = f"""
select inbound.message from {ATTEMPTS} join delivery on delivery.n = newest.subject
  join inbound on inbound.session = delivery.stream
             and inbound.turn between delivery.from_turn and delivery.through_turn
 where newest.request_id = :id and newest.kind = 'delivery' order by newest.n desc, inbound.turn, inbound.seq
 limit :limit"""
STATEMENTS = (BY_REPLY_RECEIPT, BY_DELIVERY_RECEIPT, BY_CALL, BY_REPLY_REQUEST, BY_DELIVERY_REQUEST)


def by_foreign_id(wanted: str, *, limit: int) -> Script[list[str]]:
    """The messages of the replies, deliveries, tool calls and failed attempts with this id, newest first."""
    found = yield from together(*(Query(sql, {"id": wanted, "limit": limit}) for sql in STATEMENTS))
    return [row[0] for one_ in found for row in one_]
