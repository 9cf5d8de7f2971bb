"""Storing and reading samples."""

import json
from collections.abc import Sequence

from holdfast.kernel.ids import Instant, NodeId
from holdfast.monitor.sample import HOUR_MS, MINUTE_MS, Sample, SampleSpan, added_up
from holdfast.store.script import Script, one, rows, run, verb

KEEP = """
insert into sample (span, at, node, body) values (:span, :at, :node, :body)
on conflict (span, at, node) do update set body = excluded.body"""
OF_HOUR = """
select at, body from sample
 where span = 'minute' and at >= :hour and at < cast(:hour as int8) + cast(:length as int8) and node = :node
 order by at"""
FORGET = "delete from sample where span = :span and at < :before"
RECORDED = """
select count(distinct at) from sample
 where span = 'minute' and at >= cast(:now as int8) / :length * :length - cast(:length as int8) - cast(:span_ms as int8)
   and at < cast(:now as int8) / :length * :length - cast(:length as int8)"""
SINCE = "select at, body from sample where span = :span and at >= :since order by at"


@verb
def record_sample(node: NodeId, sample: Sample) -> Script[None]:
    """Store what a node counted in a minute, and add up the hour of it again. Once an hour, delete what is too old.

    A repeated call changes nothing.
    """
    yield from _keep(node, sample)
    hour = SampleSpan.HOUR.start_of(sample.at)
    found = yield from rows(OF_HOUR, hour=hour, length=SampleSpan.HOUR.length_ms, node=node)
    minutes = (Sample(span=SampleSpan.HOUR, at=hour, **json.loads(bytes(body))) for _, body in found)
    yield from _keep(node, added_up(minutes)[hour])
    if sample.at == hour:
        for span in SampleSpan:
            yield from run(FORGET, span=span.value, before=sample.at - span.kept_ms)


def _keep(node: NodeId, sample: Sample) -> Script[None]:
    raw = json.dumps({"counts": sample.counts, "levels": sample.levels}, separators=(",", ":")).encode()
    yield from run(KEEP, span=sample.span.value, at=sample.at, node=node, body=raw)


@verb
def count_sample_holes() -> Script[int]:
    """The whole minutes of the last hour in which no node recorded a sample. The newest one may still be stored."""
    found = yield from one(RECORDED, length=MINUTE_MS, span_ms=HOUR_MS)
    return max(0, HOUR_MS // MINUTE_MS - (found[0] if found else 0))


@verb
def list_samples(span: SampleSpan, since: Instant) -> Script[Sequence[Sample]]:
    """The samples of all nodes, oldest first."""
    found = yield from rows(SINCE, span=span.value, since=since)
    return [Sample(span=span, at=Instant(at), **json.loads(bytes(body))) for at, body in found]
