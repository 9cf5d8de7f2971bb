"""Guarantees of a paused agent, broken on purpose."""

from collections.abc import Sequence

from holdfast.inbox import accept_sql
from holdfast.testing.areas import Area
from holdfast.testing.mutant import Patch, mutant
from holdfast.turns import agent_pause_sql, turn_sql

BUDGET = 200


@mutant("I36", budget=BUDGET, area=Area.PAUSES, short=9)
def paused_agent_begins_a_turn() -> Sequence[Patch]:
    """Pausing an agent does not reach its mailboxes."""
    return [(agent_pause_sql, "MARK", "update mailbox set paused = 0 where agent = :agent")]


@mutant("I36", budget=BUDGET, area=Area.PAUSES, short=9)
def pause_forgotten_at_the_end_of_a_turn() -> Sequence[Patch]:
    """A mailbox whose turn was open when its agent was paused goes on after the turn."""
    return [(turn_sql, "LIGHTEN", turn_sql.LIGHTEN.replace("then 1 else paused end", "then 0 else paused end"))]


@mutant("I36", budget=BUDGET, area=Area.PAUSES, short=10)
def new_chat_of_a_paused_agent_is_answered() -> Sequence[Patch]:
    """A mailbox that is created during a pause is not paused."""
    return [(accept_sql, "NEW_MAILBOX", accept_sql.NEW_MAILBOX.replace("then 1 else 0 end", "then 0 else 0 end"))]


@mutant("I15", budget=BUDGET, area=Area.PAUSES, short=9)
def resumed_agent_stays_silent() -> Sequence[Patch]:
    """Resuming an agent leaves the marks of its mailboxes."""
    return [(agent_pause_sql, "UNMARK", "update mailbox set paused = paused where agent = :agent")]
