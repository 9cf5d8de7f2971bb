"""What is measured of conversations: storing turns, answering messages, growth, and what they leave on disk."""

from typing import Any

from bench.section import HERMES, PEERS, QUICK_SECONDS, Cell, Contestant, Section
from bench.work import Load

# --- append + context ----------------------------------------------------------------------------

APPEND = (
    Contestant(
        name="Holdfast",
        target="bench.ours.conversations:Append",
        does="`record_and_read`: one transaction stores the turn and returns a summary and up to a hundred entries "
        "after it",
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
        turns_each=1,
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
    work="One person with that many remembered turns, twelve messages at once, each in a new conversation. Memory has "
    "lines for every message; a turn whose search fails or takes too long goes on without them and is cheaper.",
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
