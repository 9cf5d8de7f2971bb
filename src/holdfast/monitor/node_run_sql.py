"""Reading which processes served the store, and how each ended."""

from collections.abc import Sequence

from holdfast.kernel.ids import Instant
from holdfast.monitor.trace import NodeRun
from holdfast.store.script import Columns, Script, verb

RUN = Columns(NodeRun, "node_run", seen_at="coalesce(node.heartbeat_at, node_run.seen_at)")
RUNS = f"""
select {RUN} from node_run left join node on node.id = node_run.id
 where node_run.started_at >= :since order by node_run.started_at desc, node_run.id desc limit :limit"""


@verb
def list_node_runs(*, since: Instant = Instant(0), limit: int = 100) -> Script[Sequence[NodeRun]]:
    """The runs that began since then, newest first. `seen_at` of a running process is its newest heartbeat."""
    return (yield from RUN.rows(RUNS, since=since, limit=limit))
