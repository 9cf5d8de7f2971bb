"""The goals: what `make bench` has to show, as ratios within one run where a peer is named."""

from collections.abc import Iterator, Mapping, Sequence

from bench.figures import FIGURES, Goal

OURS = "Holdfast"
PLAIN, MEMORY = "Holdfast, no memory", "Holdfast, default memory"
RUNNER, GRAPH = "openai-agents Runner", "LangGraph graph"
ONE, MANY = "1 conversation", "64 conversations"

# Storing a turn and reading the context, turns/s against each peer: (gate, stretch) per cell.
APPEND: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "1 session, 0 earlier": {
        "Hermes SessionDB": (3, 6),
        "openai-agents SQLiteSession": (1.2, 1.6),
        "openai-agents SQLAlchemySession": (5, 10),
        "LangGraph AsyncSqliteSaver": (5, 10),
        "google-adk DatabaseSessionService": (20, 40),
    },
    "1 session, 1,000 earlier": {
        "Hermes SessionDB": (3, 6),
        "openai-agents SQLiteSession": (1.2, 1.6),
        "openai-agents SQLAlchemySession": (5, 10),
        "LangGraph AsyncSqliteSaver": (25, 50),
        "google-adk DatabaseSessionService": (20, 40),
    },
    "1 session, 10,000 earlier": {
        "Hermes SessionDB": (20, 40),
        "openai-agents SQLiteSession": (1.2, 1.6),
        "openai-agents SQLAlchemySession": (5, 10),
        "LangGraph AsyncSqliteSaver": (150, 300),
        "google-adk DatabaseSessionService": (15, 30),
    },
    "1,000 sessions, 1,000 earlier, 64 at once": {
        "Hermes SessionDB": (40, 80),
        "openai-agents SQLiteSession": (8, 15),
        "openai-agents SQLAlchemySession": (40, 80),
        "LangGraph AsyncSqliteSaver": (100, 200),
        "google-adk DatabaseSessionService": (130, 260),
    },
    "50 sessions, 10,000 earlier, 50 at once": {
        "Hermes SessionDB": (130, 250),
        "openai-agents SQLiteSession": (5, 10),
        "openai-agents SQLAlchemySession": (30, 60),
        "LangGraph AsyncSqliteSaver": (900, 1_800),
        "google-adk DatabaseSessionService": (100, 200),
    },
}
# CPU per answered message, in milliseconds.
ANSWER_CPU: Mapping[tuple[str, str], tuple[float, float]] = {
    (f"{ONE}, 0 earlier", PLAIN): (3.5, 2.5),
    (f"{MANY}, 0 earlier", PLAIN): (1.2, 0.8),
    (f"{ONE}, 0 earlier", MEMORY): (6, 4),
    (f"{MANY}, 0 earlier", MEMORY): (3.5, 2.5),
}
# Answered messages/s against a peer.
ANSWER_RATIO: Mapping[tuple[str, str, str], tuple[float, float]] = {
    (f"{ONE}, 0 earlier", PLAIN, RUNNER): (1.5, 2.2),
    (f"{MANY}, 0 earlier", PLAIN, RUNNER): (4, 7),
    (f"{ONE}, 0 earlier", MEMORY, RUNNER): (0.9, 1.3),
    (f"{MANY}, 0 earlier", MEMORY, RUNNER): (1.5, 2.2),
    (f"{ONE}, 0 earlier", MEMORY, GRAPH): (3, 5),
    (f"{MANY}, 0 earlier", MEMORY, GRAPH): (2, 3),
    (f"{ONE}, 1,000 earlier", MEMORY, GRAPH): (15, 40),
    (f"{MANY}, 1,000 earlier", MEMORY, GRAPH): (15, 40),
}
# Figures of Holdfast alone: section, cell, contestant, figure, gate, stretch, unit.
ALONE: Sequence[tuple[str, str, str, str, float, float | None, str]] = (
    ("trips", "one chat", OURS, "trips_per_turn", 6, 4, ""),
    ("trips", "one chat", OURS, "trips_per_accept", 2, 1, ""),
    ("recall", "10,000 lines", OURS, "cpu_ms", 3, None, "ms"),
    ("recall", "1,000,000 lines", OURS, "cpu_ms", 6, None, "ms"),
    ("accept", "1,000 a second, 10,000 chats", "holdfast up", "p99_ms", 60, 30, "ms"),
    ("disk", "0 earlier", PLAIN, "bytes", 2_500, None, "bytes"),
    ("footprint", "recovery after a kill, 10,000 sessions of 100 entries", OURS, "first_answer_s", 1, None, "s"),
    ("footprint", "12,000 idle sessions", OURS, "bytes_per_session", 2_048, None, "bytes"),
    ("footprint", "idle gateway", OURS, "resident_mb", 120, None, "MB"),
    ("footprint", "start of a program", OURS, "import_s", 0.3, None, "s"),
    ("footprint", "start of a program", OURS, "help_s", 0.4, None, "s"),
)
# One cell against another, CPU: section, cell, base cell, contestant, gate, stretch.
GROWTH: Sequence[tuple[str, str, str, str, float, float | None]] = (
    ("growth", "3,000 remembered turns", "250 remembered turns", MEMORY, 1.15, 1.05),
    ("growth", "100,000 remembered turns", "250 remembered turns", MEMORY, 1.5, 1.2),
    ("context", "2,500 entries", "500 entries", PLAIN, 1.5, 1.2),
    ("recall", "10,000 lines beside 1,000 other people", "10,000 lines", OURS, 1.2, None),
)
JOBS: Mapping[str, tuple[float, float]] = {"DBOS partitioned queue": (1.5, 3), "procrastinate lock per key": (3, 6)}
JOBS_CELL = "1,920 jobs of 64 keys"


def goals() -> Iterator[Goal]:
    for cell, peers in APPEND.items():
        for peer, bounds in peers.items():
            yield _faster("append", cell, OURS, peer, bounds)
    for of, (low, lower) in ANSWER_CPU.items():
        text = f"e2e, {of[0]}: CPU per message, {of[1]}"
        yield Goal(text=text, section="e2e", figure="cpu_ms", of=of, gate=low, stretch=lower, unit="ms")
    for (cell, who, peer), bounds in ANSWER_RATIO.items():
        yield _faster("e2e", cell, who, peer, bounds)
    for section, cell, base, who, gate, stretch in GROWTH:
        text = f"{section}, {cell}: CPU against {base}"
        of, against = (cell, who), (base, who)
        yield Goal(text=text, section=section, figure="cpu_ms", of=of, against=against, gate=gate, stretch=stretch)
    for peer, bounds in JOBS.items():
        yield _faster("jobs", JOBS_CELL, "Holdfast turns", peer, bounds)
    for section, cell, who, figure, gate, stretch, unit in ALONE:
        text = f"{section}, {cell}: {FIGURES[figure]}"
        yield Goal(text=text, section=section, figure=figure, of=(cell, who), gate=gate, stretch=stretch, unit=unit)
    for cell in ("250 remembered turns", "3,000 remembered turns", "100,000 remembered turns"):
        text, of = f"growth, {cell}: {FIGURES['recalled']}", (cell, MEMORY)
        yield Goal(text=text, section="growth", figure="recalled", of=of, gate=0.95, is_floor=True)
    text = "providers, 64 conversations, 0 earlier: p50 beside three providers against none"
    cell = "64 conversations, 0 earlier"
    of, against = (cell, "beside three providers"), (cell, "no provider")
    yield Goal(text=text, section="providers", figure="p50_ms", of=of, against=against, gate=1.25)
    text, of = "providers, 3,000 turns delivered: per second", ("3,000 turns delivered", "backlog")
    yield Goal(text=text, section="providers", figure="per_s", of=of, gate=2_000, is_floor=True)
    text = "accept, 1,000 a second, 10,000 chats: turns per second meanwhile"
    of = ("1,000 a second, 10,000 chats", "holdfast up")
    yield Goal(text=text, section="accept", figure="turns_per_s", of=of, gate=200, is_floor=True)


def _faster(section: str, cell: str, who: str, peer: str, bounds: tuple[float, float]) -> Goal:
    gate, stretch = bounds
    return Goal(
        text=f"{section}, {cell}: {who} against {peer}",
        section=section,
        figure="per_s",
        of=(cell, who),
        against=(cell, peer),
        gate=gate,
        stretch=stretch,
        is_floor=True,
    )
