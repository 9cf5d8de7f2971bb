"""Storing and reading attempts. The caller has claimed or settled the delivery or reply in the same transaction."""

from collections.abc import Sequence

from holdfast.kernel.vendor_error import VendorError
from holdfast.monitor.attempt import KEPT_MAX, AttemptKind, SendAttempt
from holdfast.store.script import Columns, Params, Script, many, plain, run

INTO = """
insert into attempt (kind, subject, attempt, part, node, started_at, ended_at, outcome, reason, status, request_id,
                     code, extract)"""
VALUES = ":node, {started}, :now, :outcome, :reason, :status, :request_id, :code, :extract"
OF_DELIVERY = f"""{INTO}
select 'delivery', n, attempt, 0, {VALUES.format(started="case when :asked = 1 then null else sent_at end")}
  from delivery where n = :n"""
# A reply keeps the time of the first attempt while it is in doubt.
REPLY_BEGAN = "case when doubts = 1 then null else sent_at end"
OF_REPLY = f"""{INTO}
select 'reply', n, :attempt, :part, {VALUES.format(started="case when :doubted = 1 then null else sent_at end")}
  from reply where n = :n"""
CUT_OFF = f"""{INTO}
select 'reply', n, attempt, part, owner, {REPLY_BEGAN}, :now, 'interrupted', :reason, null, null, null, null
  from reply where """
TRIM = """
delete from attempt
 where n in (select n from attempt where kind = :kind and subject = :subject order by n desc limit 100 offset :kept)"""
ATTEMPT = Columns(SendAttempt)
LIST = f"select {ATTEMPT} from attempt where kind = :kind and subject = :subject order by n"


def answer_of(outcome: str, reason: str | None, vendor: VendorError) -> Params:
    """The parameters of an attempt that say how it ended."""
    return {
        "outcome": outcome,
        "reason": plain(reason),
        "status": vendor.status or None,
        "request_id": plain(vendor.request_id) or None,
        "code": plain(vendor.code) or None,
        "extract": plain(vendor.extract) or None,
    }


def record_delivery_attempts(attempts: Sequence[Params]) -> Script[None]:
    """Store attempts before their settlement changes the deliveries; each has `n`, `node`, `asked` and the answer."""
    yield from many(OF_DELIVERY, attempts)
    yield from trim_attempts(AttemptKind.DELIVERY, [int(one["n"]) for one in attempts])


def trim_attempts(kind: AttemptKind, subjects: Sequence[int]) -> Script[None]:
    """Keep the newest attempts of each delivery or reply."""
    yield from many(TRIM, [{"kind": kind.value, "subject": one, "kept": KEPT_MAX} for one in subjects])


def record_cut_off(where: str, reason: str, node: str = "") -> Script[None]:
    """Store the attempts of replies that were being sent when their process ended; `where` selects the replies."""
    yield from run(CUT_OFF + where, reason=reason, node=node)


def list_attempts(kind: AttemptKind, subject: int) -> Script[list[SendAttempt]]:
    """Oldest first."""
    return (yield from ATTEMPT.rows(LIST, kind=kind.value, subject=subject))
