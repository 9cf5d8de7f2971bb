"""What an operator sees first: whether a process serves, what needs a person, and a row for each agent.

`holdfast status`, `agents` and `top` show the same overview. The store has the queues and the needs; the states of
channels, MCP servers and models are in the status file of the serving process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from holdfast.api.shapes.status import agent_view, need_view, node_view, running_view
from holdfast.cli import status as status_file
from holdfast.cli.command import Invocation, Runtime
from holdfast.inbox.channel_status import ComponentKind, ComponentStatus
from holdfast.kernel.ids import AgentName, Instant
from holdfast.monitor.agent_row import AgentRow, agent_rows
from holdfast.monitor.component_needs import component_needs
from holdfast.monitor.node_run_sql import list_node_runs
from holdfast.monitor.proved_write_sql import read_proved_writes
from holdfast.monitor.status import Headline, Need, NeedKind, StoreStatus, Urgency, headline, ordered
from holdfast.monitor.status_sql import read_status
from holdfast.runtime.health import silent
from holdfast.runtime.views import Health
from holdfast.turns.agent_pause import AgentPause

DETECTED = "detected at start"
PRESSING = frozenset({Urgency.HOLDS_UP, Urgency.STUCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOverview:
    row: AgentRow
    model: str  # the configured one
    components: Sequence[ComponentStatus]  # what it depends on, as the serving process knows it
    proved_at: Instant | None  # its newest delivery that a memory provider acknowledged
    pause: AgentPause | None = None

    def of(self, kind: ComponentKind) -> Sequence[ComponentStatus]:
        return [one for one in self.components if one.kind is kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOverview:
    is_served: bool
    health: Health
    status: StoreStatus
    agents: Sequence[AgentOverview]
    components: Sequence[ComponentStatus] = ()

    @property
    def headline(self) -> Headline:
        return headline(self.status)

    @property
    def needs_you(self) -> bool:
        """Whether something waits for a person or does not go on: the exit code of `holdfast status`."""
        return any(need.urgency in PRESSING for need in self.status.needs)

    def of(self, agent: str | None) -> "StoreOverview":
        """The part about one agent, and what concerns all of them."""
        if agent is None:
            return self
        needs = [need for need in self.status.needs if need.agent in {"", agent}]
        running = [turn for turn in self.status.running if turn.agent == agent]
        agents = [one for one in self.agents if one.row.agent == agent]
        return replace(self, status=replace(self.status, needs=needs, running=running), agents=agents)


async def read_overview(
    invocation: Invocation, runtime: Runtime, *, earlier: StoreOverview | None = None
) -> StoreOverview:
    """The overview now. With an `earlier` one, the process and its components are not examined again, nor a write."""
    status = await runtime.db.read(read_status())
    proved = await runtime.db.read(read_proved_writes())
    if earlier is None:
        is_served, health, components = await _examined(invocation, runtime)
    else:
        is_served, health, components = earlier.is_served, earlier.health, earlier.components
    more = [*component_needs(components), *_unwell(health)]
    if not is_served:
        runs = await runtime.db.read(list_node_runs(limit=1))
        more += _unserved(status, runs[0].seen_at if runs else status.at)
    status = replace(status, needs=ordered([*status.needs, *more]))
    pauses = {pause.agent: pause for pause in status.paused}
    agents = [
        AgentOverview(
            row=row,
            model=_model(invocation, row.agent),
            components=[one for one in components if one.agent == row.agent],
            proved_at=proved.get(row.agent),
            pause=pauses.get(AgentName(row.agent)),
        )
        for row in agent_rows(status, runtime.agents())
    ]
    return StoreOverview(is_served=is_served, health=health, components=components, status=status, agents=agents)


async def _examined(invocation: Invocation, runtime: Runtime) -> tuple[bool, Health, Sequence[ComponentStatus]]:
    """Whether a process serves, whether it works and the store takes a write, and the states that it reports."""
    health = await runtime.health()
    is_served = invocation.is_served
    if is_served and health.ok:
        health = silent(health, health.at)
    page = status_file.read_status(invocation.folder)
    return is_served, health, page.components if page is not None else []


def _unserved(status: StoreStatus, since: Instant) -> Sequence[Need]:
    """The store itself names this need only while messages wait."""
    if any(need.kind is NeedKind.NOT_SERVING for need in status.needs):
        return ()
    what = "No process serves this data folder"
    kind = NeedKind.NOT_SERVING
    return (Need(urgency=Urgency.STUCK, kind=kind, agent="", what=what, since=since, command="holdfast up"),)


def _unwell(health: Health) -> Sequence[Need]:
    if health.ok:
        return ()
    what, why = f"The store is not well: {health.code}", health.why or ""
    urgency, kind, command = Urgency.STUCK, NeedKind.STORE, "holdfast health"
    return (Need(urgency=urgency, kind=kind, agent="", what=what, evidence=why, since=health.at, command=command),)


def _model(invocation: Invocation, agent: str) -> str:
    policy = (invocation.settings.agents or {}).get(agent)
    return str(policy.model.get("name", DETECTED)) if policy is not None else DETECTED


# --- JSON ------------------------------------------------------------------------------------------


def agent_json(one: AgentOverview) -> Mapping[str, Any]:
    return {
        **msgspec.to_builtins(agent_view(one.row)),
        "model": one.model,
        "components": one.components,
        "proved_at": one.proved_at,
        "paused_at": one.pause.paused_at if one.pause is not None else None,
    }


def overview_json(found: StoreOverview) -> Mapping[str, Any]:
    status = found.status
    return {
        "at": status.at,
        "served": found.is_served,
        "ok": found.health.ok,
        "code": found.health.code,
        "proved_at": status.proved_at,
        "needs_you": found.needs_you,
        "headline": found.headline.first,
        "second": found.headline.second,
        "needs": [need_view(need) for need in status.needs],
        "agents": [agent_json(one) for one in found.agents],
        "running": [running_view(turn) for turn in status.running],
        "nodes": status.nodes,
        "lost": [node_view(run) for run in status.lost],
    }
