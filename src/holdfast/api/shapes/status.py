"""The JSON shapes of the status, of lists of messages, of timelines, of samples and of processes."""

from collections.abc import Callable, Iterable, Sequence

from holdfast.api.shapes.view import Shape, each, list_of, or_none, view_of
from holdfast.inbox.channel_status import ComponentStatus
from holdfast.kernel.ids import Instant
from holdfast.monitor.agent_row import AgentRow, agent_rows
from holdfast.monitor.message_list import ListedMessage, MessagePage
from holdfast.monitor.sample import Sample, SampleSpan
from holdfast.monitor.status import Need, RunningTurn, StoreStatus, headline
from holdfast.monitor.timeline import Timeline
from holdfast.monitor.timeline_step import TimelineStep
from holdfast.monitor.trace import NodeRun, TraceFacts
from holdfast.runtime.views import Health


class NeedOut(Shape, frozen=True, kw_only=True):
    """Something that a person should know. A token without the scope `read` gets no words, ids and commands."""

    urgency: str  # needs you, stuck, to be decided, mends itself
    kind: str
    agent: str
    what: str
    since: int
    until: int | None  # when it decides itself
    evidence: str
    subject: str  # the id to act on
    command: str  # what a person would type
    count: int


class AgentStatus(Shape, frozen=True, kw_only=True):
    """What waits for one agent. Ages are those of the oldest open item; 0 without one."""

    agent: str
    waiting: int
    in_turn: int
    message_age_ms: int
    running: int
    undelivered: int
    delivery_age_ms: int
    parked: int
    uncertain: int
    replies_open: int
    reply_age_ms: int
    replies_failed: int
    needs: int
    urgency: str | None  # of the most urgent need


class RunningTurnOut(Shape, frozen=True, kw_only=True):
    agent: str
    session: str
    n: int
    phase: str
    attempt: int
    opened_at: int
    message: str
    chat: str
    is_claimed: bool  # false: its process is gone and another one resumes it, or it waits for a person


class ComponentOut(Shape, frozen=True, kw_only=True):
    """A channel, MCP server (`tools`), model or memory provider of an agent, as its latest use showed it.

    A token without the scope `read` gets no `reason`.
    """

    kind: str
    agent: str
    name: str
    state: str  # unknown (not used yet), starting, up, down
    since: int
    reason: str
    attempts: int  # consecutive failures
    succeeded_at: int | None
    failed_at: int | None  # with the following three: the newest failure
    status: int | None
    request_id: str | None
    code: str | None
    retry_at: int | None  # while its circuit breaker is open


class StatusReport(Shape, frozen=True, kw_only=True):
    """What needs a person, what is stuck, and what waits, at one moment.

    `ok` means that this process just wrote to the store and that no damaged page was seen; `code` says why not.
    """

    at: int
    ok: bool
    code: str | None
    proved_at: int | None  # the newest write that a health check proved
    headline: list[str]
    second: list[str]  # what holds nothing up
    needs: list[NeedOut]  # most urgent first
    agents: list[AgentStatus]
    running: list[RunningTurnOut]
    components: list[ComponentOut]  # of this process


component_view: Callable[[ComponentStatus], ComponentOut] = view_of(ComponentOut)
need_view: Callable[[Need], NeedOut] = view_of(NeedOut)
agent_view: Callable[[AgentRow], AgentStatus] = view_of(AgentStatus)
running_view: Callable[[RunningTurn], RunningTurnOut] = view_of(RunningTurnOut)


def status_view(
    status: StoreStatus, health: Health, agents: Iterable[str], components: Iterable[ComponentStatus]
) -> StatusReport:
    """The status; the needs of components are among those of the status."""
    told = headline(status)
    return StatusReport(
        at=status.at,
        ok=health.ok,
        code=health.code,
        proved_at=status.proved_at,
        headline=list(told.first),
        second=list(told.second),
        needs=[need_view(need) for need in status.needs],
        agents=[agent_view(row) for row in agent_rows(status, agents)],
        running=[running_view(turn) for turn in status.running],
        components=[component_view(one) for one in components],
    )


class ListedMessageOut(Shape, frozen=True, kw_only=True):
    message: str
    agent: str
    chat: str
    sender: str
    id: str  # the sender's own
    kind: str
    state: str
    reason: str | None
    accepted_at: int
    session: str | None
    turn: int | None
    text: str  # the beginning of its words


class MessageList(Shape, frozen=True, kw_only=True):
    """Newest first. `next` is the value of `before` for the next page, also after a page without matches.

    A page looks at a limited number of messages; `searched_back_to` says how far, unless it found enough.
    """

    messages: list[ListedMessageOut]
    next: str | None
    searched_back_to: int | None


listed_view: Callable[[ListedMessage], ListedMessageOut] = view_of(ListedMessageOut, id="event_id")
messages_view: Callable[[MessagePage], MessageList] = view_of(MessageList, messages=each("messages", listed_view))


class StepOut(Shape, frozen=True, kw_only=True):
    at: int
    until: int | None  # null if it has no duration, or goes on
    duration_ms: int | None
    kind: str  # what acted: message, queue, turn, recall, model, tool, approval, compression, process, reply, ...
    name: str | None  # of the model, tool, provider, channel or process
    what: str
    proof: str  # ids, numbers and reasons
    mark: str  # done, running, waiting, failed, uncertain, lost
    chapter: str  # said, remembered


class TimelineOut(Shape, frozen=True, kw_only=True):
    """What happened to a message, in order. It has no words of people."""

    message: str
    state: str
    at: int  # when this was true
    verdict: str
    needs_you: bool
    steps: list[StepOut]


step_view: Callable[[TimelineStep], StepOut] = view_of(StepOut, name=or_none("name"))


def timeline_view(facts: TraceFacts, told: Timeline) -> TimelineOut:
    return TimelineOut(
        message=facts.message.message,
        state=facts.message.state.value,
        at=facts.at,
        verdict=told.verdict,
        needs_you=told.needs_you,
        steps=[step_view(step) for step in told.steps],
    )


class SampleOut(Shape, frozen=True, kw_only=True):
    """The numbers of one span, added up over all processes: by `what/agent`, `what/agent/provider`, and for settled
    replies and deliveries `what/state/agent/name`.
    """

    at: int  # its beginning
    counts: dict[str, int]
    levels: dict[str, int]  # at its end; the largest in an hour


class Samples(Shape, frozen=True, kw_only=True):
    """Oldest first. A span without a sample is missing: no process recorded anything then."""

    span: str
    length_ms: int
    since: int
    samples: list[SampleOut]


def samples_view(span: SampleSpan, since: Instant, found: Sequence[Sample]) -> Samples:
    samples = [SampleOut(at=one.at, counts=dict(one.counts), levels=dict(one.levels)) for one in found]
    return Samples(span=span.value, length_ms=span.length_ms, since=since, samples=samples)


class NodeOut(Shape, frozen=True, kw_only=True):
    """One run of one process that serves or served the store."""

    id: str
    host: str
    started_at: int
    seen_at: int  # its last sign of life
    ended_at: int | None
    ending: str | None  # stopped, or lost without a word; null while it runs


class NodeList(Shape, frozen=True, kw_only=True):
    """Newest first."""

    nodes: list[NodeOut]


node_view: Callable[[NodeRun], NodeOut] = view_of(NodeOut)
nodes_view = list_of(NodeList, node_view)
