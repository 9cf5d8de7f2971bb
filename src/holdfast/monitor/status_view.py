"""The status as one reader may see it: of some agents only, or without what people wrote or are called."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from holdfast.monitor.queues import Queue
from holdfast.monitor.status import Need, StoreStatus, ordered

K = TypeVar("K")


def of_agents(status: StoreStatus, sees: Callable[[str], bool]) -> StoreStatus:
    """The part that concerns agents of the reader. Processes serve every agent and are left out."""

    def seen(found: Mapping[K, Queue], agent: Callable[[K], str]) -> dict[K, Queue]:
        return {key: queue for key, queue in found.items() if sees(agent(key))}

    queues = status.queues
    return replace(
        status,
        queues=replace(
            queues,
            messages=seen(queues.messages, str),
            deliveries=seen(queues.deliveries, lambda key: key.agent),
            replies=seen(queues.replies, lambda key: key.agent),
        ),
        needs=[need for need in status.needs if sees(need.agent)],
        running=[turn for turn in status.running if sees(turn.agent)],
        nodes=(),
        lost=(),
        paused=[pause for pause in status.paused if sees(pause.agent)],
    )


def with_needs(status: StoreStatus, more: Iterable[Need]) -> StoreStatus:
    """The status with the needs of components, which the serving process knows."""
    return replace(status, needs=ordered([*status.needs, *more]))


def without_people(status: StoreStatus) -> StoreStatus:
    """Numbers, states and times alone: no address, principal, id of a conversation, or reason of another server."""
    return replace(
        status,
        needs=[anonymous(need) for need in status.needs],
        running=[replace(turn, session="", message="", chat="") for turn in status.running],
        paused=[replace(pause, by=replace(pause.by, id="", label="", origin="")) for pause in status.paused],
    )


def anonymous(need: Need) -> Need:
    return replace(need, what="", evidence="", subject="", command="")
