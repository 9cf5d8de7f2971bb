"""The overview as text: sentences, and the cells of the tables of needs, agents and turns."""

from collections.abc import Iterator, Sequence

from holdfast.cli.output import Heading, Part, TextTable, when, wrapped
from holdfast.cli.overview import AgentOverview, StoreOverview
from holdfast.inbox.channel_status import ComponentKind, ConnectionState
from holdfast.monitor.durations import duration
from holdfast.monitor.status import Need, RunningTurn

NEED_COLUMNS = ("urgency", "what", "since", "type this")
AGENT_COLUMNS = ("agent", "queue", "oldest", "model", "channels", "tools", "parked", "uncertain", "proved write")
TURN_COLUMNS = ("agent", "turn", "phase", "since", "attempt", "message")


def overview_text(found: StoreOverview) -> Iterator[Part]:
    yield Heading(str(found.headline))
    if found.headline.second:
        yield wrapped(" · ".join(found.headline.second))
    yield ""
    yield from map(wrapped, process_lines(found))
    if found.status.needs:
        yield ""
        yield TextTable(NEED_COLUMNS, map(need_cells, found.status.needs))
    yield ""
    yield agent_table(found.agents)
    yield ""
    yield Heading("Turns")
    yield TextTable(TURN_COLUMNS, map(turn_cells, found.status.running), "none is open")


def process_lines(found: StoreOverview) -> Iterator[str]:
    """Which processes serve, which were lost, and the newest write that was proved."""
    for node in found.status.nodes if found.is_served else ():
        yield f"Serving on {node.host} since {when(node.started_at)} ({node.id})."
    if not found.is_served:
        yield "No process serves this data folder: `holdfast up` starts one."
    for run in found.status.lost:
        yield f"A process on {run.host} was lost; it was last seen {when(run.seen_at)} ({run.id})."
    if found.status.proved_at is not None:
        yield f"The last write was proved {when(found.status.proved_at)}."


def agent_table(agents: Sequence[AgentOverview]) -> TextTable:
    return TextTable(AGENT_COLUMNS, map(agent_cells, agents), "none is configured")


def need_cells(need: Need) -> Sequence[str]:
    what = f"{need.what} ({need.evidence})" if need.evidence else need.what
    return need.urgency.value, what, when(need.since), need.command


def agent_cells(one: AgentOverview) -> Sequence[str]:
    row = one.row
    oldest = max(row.message_age_ms, row.delivery_age_ms, row.reply_age_ms)
    return (
        row.agent,
        queue_words(one),
        duration(oldest) if oldest else "",
        component_words(one, ComponentKind.MODEL) or one.model,
        component_words(one, ComponentKind.CHANNEL),
        component_words(one, ComponentKind.TOOLS),
        str(row.parked),
        str(row.uncertain),
        when(one.proved_at),
    )


def queue_words(one: AgentOverview) -> str:
    """`paused, 2 waiting, 1 in turn, 3 to deliver`; `idle` for nothing."""
    row = one.row
    counts = (
        (row.waiting, "waiting"),
        (row.in_turn, "in turn"),
        (row.replies_open, "to send"),
        (row.undelivered, "to deliver"),
    )
    words = ["paused"] if one.pause is not None else []
    words += [f"{count} {what}" for count, what in counts if count]
    return ", ".join(words) or "idle"


def component_words(one: AgentOverview, kind: ComponentKind) -> str:
    """`telegram up, slack down`; the state is left out while it is unknown."""
    unknown = ConnectionState.UNKNOWN
    return ", ".join(
        found.name if found.state is unknown else f"{found.name} {found.state.value}" for found in one.of(kind)
    )


def turn_cells(turn: RunningTurn) -> Sequence[str]:
    held = "" if turn.is_claimed or turn.phase == "awaiting" else " (its process is gone)"
    attempt = str(turn.attempt)
    return turn.agent, f"{turn.session}/{turn.n}", f"{turn.phase}{held}", when(turn.opened_at), attempt, turn.message
