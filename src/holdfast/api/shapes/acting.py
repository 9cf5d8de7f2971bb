"""The JSON shapes of what an operator does to an agent: pauses."""

from holdfast.api.shapes.view import Shape, list_of, view_of
from holdfast.turns.agent_pause import AgentPause, PauseChange


class PausedAgent(Shape, frozen=True, kw_only=True):
    """An agent that accepts messages and begins no turn."""

    agent: str
    paused_at: int
    paused_by: str


class PausedAgents(Shape, frozen=True, kw_only=True):
    agents: list[PausedAgent]


class AgentPaused(Shape, frozen=True, kw_only=True):
    """The effect of pausing or resuming an agent. A repeated request changes nothing."""

    agent: str
    paused: bool
    changed: bool
    since: int | None  # when the pause began that stands or ended
    by: str | None  # who paused it
    waiting: int  # messages that wait or are in a turn
    open_turns: int  # turns that end first


pause_view = view_of(PausedAgent, paused_by="who")
pauses_view = list_of(PausedAgents, pause_view)


def change_view(agent: str, change: PauseChange, *, paused: bool) -> AgentPaused:
    pause: AgentPause | None = change.pause
    return AgentPaused(
        agent=agent,
        paused=paused,
        changed=change.changed,
        since=None if pause is None else pause.paused_at,
        by=None if pause is None else pause.who,
        waiting=change.waiting,
        open_turns=change.open_turns,
    )
