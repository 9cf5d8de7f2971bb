"""Pausing and resuming an agent.

A pause is a row, and a mark on each mailbox of the agent, so that a claim finds what is ready without looking at what
is paused. A mailbox with an open turn is marked when the turn ends (`LIGHTEN` in turns/turn_sql.py); a new mailbox of a
paused agent is marked at once. The lock of the agent and of all its mailboxes is held meanwhile, so no turn begins
between the row and the marks.
"""

from collections.abc import Sequence

from holdfast.audit import action_sql
from holdfast.audit.action import PROGRAM, Act, By
from holdfast.audit.action_sql import ACTOR
from holdfast.kernel.ids import AgentName
from holdfast.store.agent_lock_sql import hold_agents
from holdfast.store.script import Columns, Script, one, rows, run, verb
from holdfast.turns.agent_pause import AgentPause, PauseChange

PAUSE = Columns(AgentPause, without=("by",))
FIND = f"select {PAUSE}, {ACTOR} from agent_pause where agent = :agent"
LIST = f"select {PAUSE}, {ACTOR} from agent_pause order by agent"
ADD = """
insert into agent_pause (agent, paused_at, actor_kind, actor, label, origin)
values (:agent, :now, :kind, :actor, :label, :origin)"""
REMOVE = "delete from agent_pause where agent = :agent"
HOLD_MAILBOXES = "select id from mailbox where agent = :agent order by id /*lock*/"
MARK = """
update mailbox
   set paused = case when exists (select 1 from session
                                   where session.id = mailbox.session_id and session.open_turn is not null)
                     then 2 else 1 end
 where agent = :agent"""
# Mailboxes that were inserted without their mark.
MARK_MISSED = """
update mailbox set paused = 1
 where paused = 0 and agent in (select agent from agent_pause)
   and not exists (select 1 from session where session.id = mailbox.session_id and session.open_turn is not null)"""
UNMARK = "update mailbox set paused = 0 where agent = :agent and paused <> 0"
COUNTS = """
select coalesce(sum(depth), 0),
       (select count(*) from mailbox join session on session.id = mailbox.session_id
         where mailbox.agent = :agent and session.open_turn is not null)
  from mailbox where agent = :agent and depth > 0"""


@verb
def pause_agent(agent: AgentName, by: By = PROGRAM) -> Script[PauseChange]:
    """Pause an agent. A paused one stays as it is: the first pause stands."""
    yield from hold_agents([agent])
    found = yield from read_pause(agent)
    if found is not None:
        return (yield from _changed(agent, found, changed=False))
    yield from rows(HOLD_MAILBOXES, agent=agent)
    who = action_sql.kept(by)
    yield from run(ADD, agent=agent, kind=who.kind.value, actor=who.id, label=who.label, origin=who.origin)
    yield from run(MARK, agent=agent)
    change = yield from _changed(agent, (yield from read_pause(agent)), changed=True)
    yield from action_sql.record(Act.AGENT_PAUSED, by, agent)
    return change


@verb
def resume_agent(agent: AgentName, by: By = PROGRAM) -> Script[PauseChange]:
    """Let an agent begin turns again, the messages that waited longest first."""
    yield from hold_agents([agent])
    found = yield from read_pause(agent)
    if found is None:
        return (yield from _changed(agent, None, changed=False))
    yield from rows(HOLD_MAILBOXES, agent=agent)
    yield from run(REMOVE, agent=agent)
    yield from run(UNMARK, agent=agent)
    change = yield from _changed(agent, found, changed=True)
    yield from action_sql.record(Act.AGENT_RESUMED, by, agent)
    return change


@verb
def list_pauses() -> Script[Sequence[AgentPause]]:
    """The paused agents, by name."""
    return [_pause_of(row) for row in (yield from rows(LIST))]


def read_pause(agent: str) -> Script[AgentPause | None]:
    row = yield from one(FIND, agent=agent)
    return None if row is None else _pause_of(row)


def _pause_of(row: tuple[object, ...]) -> AgentPause:
    cut = len(PAUSE.names)
    return PAUSE.value(row[:cut], by=ACTOR.value(row[cut:]))


def _changed(agent: AgentName, pause: AgentPause | None, *, changed: bool) -> Script[PauseChange]:
    waiting, open_turns = (yield from one(COUNTS, agent=agent)) or (0, 0)
    return PauseChange(changed=changed, pause=pause, waiting=int(waiting), open_turns=open_turns)
