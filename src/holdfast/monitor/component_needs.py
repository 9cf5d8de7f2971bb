"""What a person should do about components that are down."""

from collections.abc import Iterable, Sequence

from holdfast.inbox.channel_status import ComponentKind, ComponentStatus
from holdfast.monitor.status import Need, NeedKind, Urgency

PATIENCE = 5  # consecutive failures after which a component does not mend itself
KINDS = {
    ComponentKind.CHANNEL: NeedKind.CHANNEL,
    ComponentKind.TOOLS: NeedKind.TOOLS,
    ComponentKind.MODEL: NeedKind.MODEL,
    ComponentKind.MEMORY: NeedKind.MEMORY,
}
COMMANDS = {
    ComponentKind.CHANNEL: "holdfast channels",
    ComponentKind.TOOLS: "holdfast tools",
    ComponentKind.MODEL: "holdfast config check --connect",
    ComponentKind.MEMORY: "holdfast config check --connect",
}
WORDS = {
    ComponentKind.CHANNEL: "{name} of {agent} is not connected",
    ComponentKind.TOOLS: "The tool server {name} of {agent} is down",
    ComponentKind.MODEL: "The model {name} of {agent} does not answer",
    ComponentKind.MEMORY: "The memory provider {name} of {agent} does not answer",
}
REFUSED = {
    ComponentKind.CHANNEL: "{name} refuses the token of {agent}",
    ComponentKind.TOOLS: "The tool server {name} refuses the token of {agent}",
    ComponentKind.MODEL: "The vendor of {name} refuses the key of {agent}",
    ComponentKind.MEMORY: "The memory provider {name} refuses the key of {agent}",
}


def component_needs(found: Iterable[ComponentStatus]) -> Sequence[Need]:
    """One need for each component that is down. A refused key waits for a person; an outage may mend itself.

    The outage of a memory provider is a need by its deliveries that wait, which every process sees.
    """
    return [_need(one) for one in found if one.needs_key or (one.is_down and one.kind is not ComponentKind.MEMORY)]


def _need(one: ComponentStatus) -> Need:
    urgency = Urgency.STUCK if one.attempts >= PATIENCE else Urgency.MENDS
    words = REFUSED if one.needs_key else WORDS
    return Need(
        urgency=Urgency.HOLDS_UP if one.needs_key else urgency,
        kind=KINDS[one.kind],
        agent=one.agent,
        name=one.name,
        what=words[one.kind].format(name=one.name, agent=one.agent),
        evidence=one.reason,
        since=one.since,
        until=one.retry_at,
        command=COMMANDS[one.kind],
    )
