"""One row for each agent: what waits, what could not be proved, and how urgently a person should look."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.monitor.queues import OPEN_DELIVERIES, OPEN_REPLIES, Queue
from holdfast.monitor.status import Need, StoreStatus, Urgency


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """Ages are those of the oldest open item, in milliseconds; 0 without one."""

    agent: str
    waiting: int  # messages before their turn
    in_turn: int
    message_age_ms: int
    running: int  # open turns
    undelivered: int
    delivery_age_ms: int
    parked: int
    uncertain: int  # deliveries and replies
    replies_open: int
    reply_age_ms: int
    replies_failed: int
    needs: int
    urgency: Urgency | None  # of the most urgent need


def agent_rows(status: StoreStatus, agents: Iterable[str], more: Iterable[Need] = ()) -> Sequence[AgentRow]:
    """The rows of these agents and of those that the store has something of, by name."""
    queues = status.queues
    needs = [*status.needs, *more]
    known = {*queues.messages, *(key.agent for key in queues.deliveries), *(key.agent for key in queues.replies)}
    known |= {turn.agent for turn in status.running} | {need.agent for need in needs if need.agent}
    return [_row(status, agent, [need for need in needs if need.agent == agent]) for agent in sorted({*agents, *known})]


def _row(status: StoreStatus, agent: str, needs: Sequence[Need]) -> AgentRow:
    queues = status.queues
    messages = queues.messages.get(agent, Queue())
    deliveries = [queue for key, queue in queues.deliveries.items() if key.agent == agent]
    replies = [queue for key, queue in queues.replies.items() if key.agent == agent]

    def total(found: Sequence[Queue], *states: str) -> int:
        return sum(queue.count(*states) for queue in found)

    def age_ms(found: Sequence[Queue]) -> int:
        return max(map(queues.age_ms, found), default=0)

    order = list(Urgency)
    return AgentRow(
        agent=agent,
        waiting=messages.count("waiting"),
        in_turn=messages.count("in_turn"),
        message_age_ms=queues.age_ms(messages),
        running=sum(turn.agent == agent for turn in status.running),
        undelivered=total(deliveries, *OPEN_DELIVERIES),
        delivery_age_ms=age_ms(deliveries),
        parked=total(deliveries, "parked"),
        uncertain=total(deliveries, "uncertain") + total(replies, "uncertain"),
        replies_open=total(replies, *OPEN_REPLIES),
        reply_age_ms=age_ms(replies),
        replies_failed=total(replies, "failed"),
        needs=sum(need.count for need in needs),
        urgency=min((need.urgency for need in needs), key=order.index, default=None),
    )
