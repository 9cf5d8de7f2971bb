"""What is measured around conversations: ordered jobs, round trips, searches, HTTP, recovery and size at rest."""

from typing import Any

from bench.section import PEERS, QUICK_SECONDS, Cell, Contestant, Section
from bench.work import Load

# --- ordered jobs on PostgreSQL ---------------------------------------------------------------------

JOBS = (
    Contestant(
        name="Holdfast turns",
        target="bench.ours.jobs:measure",
        does="a job is a whole turn: the message is deduplicated and journaled, a model is asked, the reply and the "
        "turn are committed",
    ),
    Contestant(
        name="DBOS partitioned queue",
        target="bench.peers.dbos:measure",
        environment=PEERS,
        does="a job is an empty workflow on a queue with one partition per key and a limit of one per partition, "
        "polled every 10 ms instead of every second",
    ),
    Contestant(
        name="procrastinate lock per key",
        target="bench.peers.procrastinate:measure",
        environment=PEERS,
        does="a job is an empty task with a lock per key, 64 at once, polled every 100 ms beside its notifications",
    ),
)


def jobs_cell(jobs: int) -> Cell:
    load = Load(conversations=64, options={"jobs": jobs})
    return Cell(name=f"{jobs:,} jobs of 64 keys", load=load, contestants=JOBS)


SECTION_JOBS = Section(
    name="jobs",
    title="Ordered jobs on PostgreSQL",
    work="64 producers each make the jobs of one key durable, one after another, while one process works on them: in "
    "order within a key, keys beside each other. The rate counts from the first job made to the last one done. The "
    "work is not equal: the peers' jobs are empty, Holdfast's are whole turns. `in_order` is 1 if every key's jobs ran "
    "in order. The server runs with full durability on the same machine; its CPU is not counted.",
    figures=("per_s", "cpu_ms", "p50_ms", "p99_ms", "in_order"),
    cells=(jobs_cell(1_920),),
    quick_cells=(jobs_cell(128),),
    versions=("dbos", "procrastinate"),
    needs_postgres=True,
)

TRIPS = (Contestant(name="Holdfast", target="bench.ours.trips:measure"),)


def trips_cell(turns: int) -> Cell:
    return Cell(name="one chat", load=Load(options={"turns": turns}), contestants=TRIPS)


SECTION_TRIPS = Section(
    name="trips",
    title="Round trips to PostgreSQL",
    work="A proxy counts how often Holdfast sends something and waits for the server: per turn without tools and "
    "memory after its message was accepted, per accepted message of a process that runs no turns, and per idle second. "
    "An idle second has at most one statement, which the tests assert, and the end of its transaction.",
    figures=("trips_per_turn", "trips_per_accept", "trips_per_idle_s"),
    cells=(trips_cell(200),),
    quick_cells=(trips_cell(20),),
    needs_postgres=True,
)

# --- memory, HTTP, footprint -------------------------------------------------------------------------

SEARCH = (Contestant(name="Holdfast", target="bench.ours.recall:measure"),)


def recall_cell(name: str, seconds: float = 3.0, **options: int) -> Cell:
    return Cell(name=name, load=Load(seconds=seconds, options=dict(options)), contestants=SEARCH, is_prepared=True)


SECTION_RECALL = Section(
    name="recall",
    compares_cells=True,
    title="Searching memory",
    work="`recall` with four words of one remembered line and two others, one search after another. The words of the "
    "lines have the frequencies of natural language. `answered` is the share of searches that found something.",
    figures=("p50_ms", "p99_ms", "cpu_ms", "answered"),
    cells=(
        recall_cell("10,000 lines", lines=10_000),
        recall_cell("10,000 lines beside 1,000 other people", lines=10_000, people=1_000, lines_each=100),
        recall_cell("100,000 lines", lines=100_000),
        recall_cell("1,000,000 lines", lines=1_000_000),
    ),
    quick_cells=(recall_cell("1,000 lines", seconds=QUICK_SECONDS, lines=1_000),),
)

GATEWAY = (Contestant(name="holdfast up", target="bench.ours.gateway:accept"),)
SECTION_ACCEPT = Section(
    name="accept",
    title="Accepting over HTTP while turns run",
    work="`holdfast up` with the practice model and its default memory. A process of its own sends messages at a "
    "steady rate over 64 connections; a message's latency counts from when it should have left. `turns_per_s` counts "
    "the turns that ended meanwhile, `cpu_share` the server's use of one core.",
    figures=("p99_ms", "p50_ms", "per_s", "turns_per_s", "refused", "cpu_share"),
    cells=(
        Cell(
            name="1,000 a second, 10,000 chats",
            load=Load(conversations=10_000, seconds=60, options={"rate": 1_000, "warm_s": 20}),
            contestants=GATEWAY,
        ),
    ),
    quick_cells=(
        Cell(
            name="100 a second, 100 chats",
            load=Load(conversations=100, seconds=2, options={"rate": 100, "warm_s": 0.5}),
            contestants=GATEWAY,
        ),
    ),
)


def footprint_cells(sessions: int, entries: int, few: int, many: int) -> tuple[Cell, ...]:
    def one(name: str, target: str, *, is_prepared: bool = False, **load: Any) -> Cell:  # noqa: ANN401
        made = (Contestant(name="Holdfast", target=target),)
        return Cell(name=name, load=Load(**load), contestants=made, is_prepared=is_prepared)

    return (
        one(
            f"recovery after a kill, {sessions:,} sessions of {entries} entries",
            "bench.ours.footprint:recovery",
            is_prepared=True,
            history=entries,
            options={"sessions": sessions},
        ),
        one(f"{many:,} idle sessions", "bench.ours.footprint:idle_sessions", options={"few": few, "many": many}),
        one("idle gateway", "bench.ours.gateway:idle"),
        one("start of a program", "bench.ours.footprint:startup"),
    )


SECTION_FOOTPRINT = Section(
    name="footprint",
    title="Recovery, memory and start",
    work="Recovery counts from the start of a process, after its predecessor was killed while answering 64 chats, to "
    "its first answer. Memory per idle session is the growth of resident memory per further conversation that was "
    "answered once. The gateway is `holdfast up` on an empty folder.",
    figures=("first_answer_s", "bytes_per_session", "resident_mb", "ready_s", "import_s", "help_s"),
    cells=footprint_cells(10_000, 100, 2_000, 12_000),
    quick_cells=footprint_cells(100, 100, 100, 300),
)
