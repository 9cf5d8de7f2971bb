"""A paused agent: it accepts and stores messages and begins no turn until somebody resumes it.

Turns that are open end as usual, and their replies and deliveries go on. Everything else in the mailboxes of the agent
waits in its order, commands included.
"""

from dataclasses import dataclass

from holdfast.audit.action import By
from holdfast.kernel.ids import AgentName, Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPause:
    agent: AgentName
    paused_at: Instant
    by: By

    @property
    def who(self) -> str:
        """The actor as people know it."""
        return self.by.label or self.by.id


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseChange:
    """The effect of a request. `pause` is the pause that stands, or the one that ended; None if there was none."""

    changed: bool
    pause: AgentPause | None
    waiting: int  # unfinished messages of the agent
    open_turns: int  # turns that end first
