"""The plan: which contestants do which work, at which sizes, and what of that work is equal.

Values only. `SECTIONS` is the order of a run; `quick` gives the same sections, made small.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.work import Load

REPETITIONS = 5
QUICK_SECONDS = 0.4
OURS, PEERS, HERMES = "development", "peers", "hermes"  # environments


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One way of doing a section's work: where its code is, and what of the work is its own."""

    name: str
    target: str  # module:name
    environment: str = OURS
    does: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    name: str
    load: Load
    contestants: tuple[Contestant, ...]
    is_prepared: bool = False  # whether a folder is prepared before the repetitions
    is_copied: bool = False  # whether each repetition gets its own copy of that folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    title: str
    work: str  # what is measured, and what is equal
    figures: tuple[str, ...]  # the columns; the first is compared
    cells: tuple[Cell, ...]
    quick_cells: tuple[Cell, ...]
    versions: tuple[str, ...] = ()  # packages of the peers
    needs_postgres: bool = False
    compares_cells: bool = False  # whether the cells alternate within a repetition too


# --- append + context ----------------------------------------------------------------------------

APPEND = (
    Contestant(
        name="Holdfast",
        target="bench.ours.conversations:Append",
        does="`record_turn` (one transaction), then `context`: the summary and about fifty entries after it",
    ),
    Contestant(
        name="Hermes SessionDB",
        target="bench.peers.hermes:Sessions",
        environment=HERMES,
        does="`append_message` twice (two transactions), then `get_messages_as_conversation`: the whole conversation, "
        "as its gateway loads it; its full-text indexes are kept",
    ),
    Contestant(
        name="openai-agents SQLiteSession",
        target="bench.peers.openai_agents:Sqlite",
        environment=PEERS,
        does="`add_items` of both messages, then `get_items(limit=50)`",
    ),
    Contestant(
        name="openai-agents SQLAlchemySession",
        target="bench.peers.openai_agents:SqlAlchemy",
        environment=PEERS,
        does="the same calls over one SQLAlchemy engine with aiosqlite",
    ),
    Contestant(
        name="LangGraph AsyncSqliteSaver",
        target="bench.peers.langgraph:Saver",
        environment=PEERS,
        does="`aget_tuple`, then `aput` of a checkpoint with two more messages: a checkpoint is the whole conversation",
    ),
    Contestant(
        name="google-adk DatabaseSessionService",
        target="bench.peers.adk:Sessions",
        environment=PEERS,
        does="`append_event` twice, then `get_session` with the last fifty events; its lock wait is raised to 60 s",
    ),
)


def append_cell(name: str, **load: Any) -> Cell:  # noqa: ANN401
    history = load.get("history", 0)
    return Cell(
        name=name,
        load=Load(**load),
        contestants=APPEND,
        is_prepared=history > 0,
        is_copied=load.get("at_once", 1) == 1,
    )


SECTION_APPEND = Section(
    name="append",
    title="Storing a finished turn and reading the context",
    work="Append one turn (a message of 300 bytes and an answer of 840) so that it survives a power failure, and read "
    "the context of the same session. Every contestant runs as it is shipped; all of them commit with SQLite's full "
    "synchronisation. Holdfast also checks the turn's key, so that a repeated call stores nothing twice. A session "
    "without earlier messages is replaced after fifty turns.",
    figures=("per_s", "cpu_ms", "p50_ms", "p99_ms"),
    cells=(
        append_cell("1 session, 0 earlier"),
        append_cell("1 session, 1,000 earlier", history=1_000, conversations=10, turns_each=100),
        append_cell("1 session, 10,000 earlier", history=10_000, conversations=5, turns_each=200),
        append_cell("1,000 sessions, 0 earlier, 64 at once", conversations=1_000, at_once=64),
        append_cell("1,000 sessions, 1,000 earlier, 64 at once", history=1_000, conversations=1_000, at_once=64),
        append_cell("50 sessions, 10,000 earlier, 50 at once", history=10_000, conversations=50, at_once=50),
    ),
    quick_cells=(
        append_cell("1 session, 0 earlier", seconds=QUICK_SECONDS),
        append_cell(
            "64 sessions, 100 earlier, 64 at once", history=100, conversations=64, at_once=64, seconds=QUICK_SECONDS
        ),
    ),
    versions=("hermes-agent", "openai-agents", "langgraph", "langgraph-checkpoint-sqlite", "google-adk"),
)

# --- answering a message ---------------------------------------------------------------------------

NO_MEMORY = Contestant(
    name="Holdfast, no memory",
    target="bench.ours.conversations:Answers",
    does="`ask`: the message is durable and deduplicated before the turn, the reply before it is returned. The context "
    "is compressed by its own rules: up to about 440 messages of it reach the model",
)
WITH_MEMORY = Contestant(
    name="Holdfast, default memory",
    target="bench.ours.conversations:AnswersWithMemory",
    does="the same, and memory: each turn searches the person's remembered lines and is indexed itself; the indexing "
    "counts as CPU. No peer here does this work",
)
ANSWERS = (
    NO_MEMORY,
    WITH_MEMORY,
    Contestant(
        name="openai-agents Runner",
        target="bench.peers.openai_agents:Answers",
        environment=PEERS,
        does="`Runner.run` with SQLiteSession, the last fifty messages as context, tracing off. A message is lost if "
        "the process dies before the answer",
    ),
    Contestant(
        name="LangGraph graph",
        target="bench.peers.langgraph:Answers",
        environment=PEERS,
        does="a graph of one node with AsyncSqliteSaver and durability sync; the state is the whole conversation",
    ),
    Contestant(
        name="google-adk Runner",
        target="bench.peers.adk:Answers",
        environment=PEERS,
        does="`Runner.run_async` with DatabaseSessionService on SQLite, the last fifty events as context",
    ),
)


def answer_cell(
    chats: int,
    history: int,
    contestants: tuple[Contestant, ...] = ANSWERS,
    **load: Any,  # noqa: ANN401
) -> Cell:
    name = f"{chats} conversation{'s' if chats > 1 else ''}, {history:,} earlier"
    spare = 5 if chats == 1 and history else chats
    made = Load(history=history, conversations=spare, at_once=chats, **load)
    is_copied = chats == 1 and history > 0
    return Cell(name=name, load=made, contestants=contestants, is_prepared=history > 0, is_copied=is_copied)


SECTION_ANSWER = Section(
    name="e2e",
    title="Answering a message end to end",
    work="Take a message of 700 bytes, ask a model that gives one answer of 700 bytes at once, and store both. The "
    "model is free for every contestant, so that only the runtime is measured. The messages share most of their words, "
    "so that a search of memory meets many lines. A conversation without earlier messages is replaced after fifty "
    "turns.",
    figures=("per_s", "cpu_ms", "p50_ms", "p99_ms"),
    cells=tuple(answer_cell(chats, history) for history in (0, 1_000, 10_000) for chats in (1, 64)),
    quick_cells=tuple(answer_cell(chats, 0, seconds=QUICK_SECONDS) for chats in (1, 64)),
    versions=("openai-agents", "langgraph", "langgraph-checkpoint-sqlite", "google-adk"),
)

STREAMING = (
    Contestant(name="one answer", target=NO_MEMORY.target, does="the model of the section above"),
    Contestant(
        name="word by word",
        target=NO_MEMORY.target,
        options={"streaming": True},
        does="the model streams 120 pieces; `ask` does not listen to them",
    ),
    Contestant(
        name="word by word, heard",
        target=NO_MEMORY.target,
        options={"streaming": True, "heard": True},
        does="the caller receives each piece through `stream`",
    ),
)
SECTION_STREAMING = Section(
    name="streaming",
    compares_cells=True,
    title="The price of streaming",
    work="The same messages to Holdfast without memory, with a model that streams its answer.",
    figures=("cpu_ms", "per_s", "p50_ms"),
    cells=tuple(answer_cell(chats, 0, STREAMING) for chats in (1, 64)),
    quick_cells=(answer_cell(1, 0, STREAMING, seconds=QUICK_SECONDS),),
)


def growth_cell(remembered: int, **load: Any) -> Cell:  # noqa: ANN401
    made = Load(
        conversations=12,
        at_once=12,
        turns_max=120,
        options={"remembered": remembered, "sender": "ada"},
        **load,
    )
    return Cell(
        name=f"{remembered:,} remembered turns",
        load=made,
        contestants=(WITH_MEMORY,),
        is_prepared=True,
        is_copied=True,
    )


SECTION_GROWTH = Section(
    name="growth",
    compares_cells=True,
    title="Answering as memory grows",
    work="One person, with that many remembered turns, in twelve new conversations at once. `recalled` is the share "
    "of turns to which memory contributed something: a turn whose search fails or takes too long goes on without it.",
    figures=("cpu_ms", "per_s", "p50_ms", "p99_ms", "recalled"),
    cells=tuple(growth_cell(remembered) for remembered in (250, 3_000, 100_000)),
    quick_cells=tuple(growth_cell(remembered, seconds=QUICK_SECONDS) for remembered in (50, 250)),
)


def context_cell(entries: int, **load: Any) -> Cell:  # noqa: ANN401
    options = {"window": 100_000_000}  # nothing is ever compressed
    made = Load(history=entries, conversations=5, turns_each=20, turns_max=100, options=options, **load)
    return Cell(
        name=f"{entries:,} entries",
        load=made,
        contestants=(NO_MEMORY,),
        is_prepared=True,
        is_copied=True,
    )


SECTION_CONTEXT = Section(
    name="context",
    compares_cells=True,
    title="Long contexts without compression",
    work="Holdfast without memory, with a window so large that nothing is compressed: each turn hands the model a "
    "context of that many entries.",
    figures=("cpu_ms", "per_s", "p50_ms", "p99_ms"),
    cells=tuple(context_cell(entries) for entries in (500, 2_500)),
    quick_cells=tuple(context_cell(entries, seconds=QUICK_SECONDS) for entries in (50, 250)),
)

PROVIDERS = (
    Contestant(name="no provider", target=NO_MEMORY.target, does="Holdfast without memory, as above"),
    Contestant(
        name="beside three providers",
        target="bench.ours.providers:Beside",
        does="each turn is queued for a provider that never answers, one that takes 200 ms and one that refuses every "
        "connection",
    ),
)
BACKLOG = Contestant(
    name="backlog",
    target="bench.ours.providers:settling",
    does="turns that were queued while a provider waited are delivered in order per session; it answers at once and "
    "takes batches of 64. The unit is one turn",
)


def provider_cells(turns: int, **load: Any) -> tuple[Cell, ...]:  # noqa: ANN401
    backlog = Load(conversations=turns // 10, options={"turns": turns})
    return (
        answer_cell(64, 0, PROVIDERS, **load),
        Cell(name=f"{turns:,} turns delivered", load=backlog, contestants=(BACKLOG,)),
    )


SECTION_PROVIDERS = Section(
    name="providers",
    title="Memory providers beside the turns",
    work="What providers that do not keep up cost the people who talk, and how fast Holdfast delivers a backlog.",
    figures=("p50_ms", "p99_ms", "per_s", "cpu_ms"),
    cells=provider_cells(3_000),
    quick_cells=provider_cells(200, seconds=QUICK_SECONDS),
)

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
    work="A proxy counts how often Holdfast sends something and waits for the server: per answered message without "
    "tools and memory (its accept included), per accepted message of a process that runs no turns, and per idle "
    "second.",
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


def disk_cell(name: str, turns: int, history: int, seconds: float) -> Cell:
    load = Load(
        history=history,
        conversations=20,
        at_once=20,
        turns_max=turns,
        seconds=seconds,
        options={"disk": True},
    )
    return Cell(name=name, load=load, contestants=ANSWERS, is_prepared=history > 0, is_copied=history > 0)


SECTION_DISK = Section(
    name="disk",
    title="Bytes on disk per turn",
    work="Growth of all files between two closings, per answered message of the end-to-end benchmark (1,400 bytes of "
    "text).",
    figures=("bytes",),
    cells=(disk_cell("0 earlier", 500, 0, 60), disk_cell("1,000 earlier", 200, 1_000, 60)),
    quick_cells=(disk_cell("0 earlier", 40, 0, 5),),
    versions=SECTION_ANSWER.versions,
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

SECTIONS = (
    SECTION_APPEND,
    SECTION_ANSWER,
    SECTION_STREAMING,
    SECTION_GROWTH,
    SECTION_CONTEXT,
    SECTION_PROVIDERS,
    SECTION_JOBS,
    SECTION_TRIPS,
    SECTION_RECALL,
    SECTION_ACCEPT,
    SECTION_DISK,
    SECTION_FOOTPRINT,
)


def chosen(names: Iterable[str]) -> tuple[Section, ...]:
    wanted = frozenset(names)
    return tuple(section for section in SECTIONS if not wanted or section.name in wanted)
