"""Needs as the overview shows them: one row for what several agents miss alike."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.monitor.status import Need, NeedKind, Urgency

SHARED = frozenset({NeedKind.MODEL, NeedKind.MEMORY, NeedKind.TOOLS})  # one thing that several agents use
Group = tuple[NeedKind, Urgency, str]


def gathered(needs: Sequence[Need]) -> list[Need]:
    """The needs with one row for a provider, model or tool server that is away, however many agents miss it.

    Deliveries that wait for a provider say that it is away; a second row about the provider itself is left out.
    """
    away = {need.name for need in needs if _is_away(need)}
    groups: dict[Group, list[Need]] = {}
    shown: list[Need | Group] = []
    for need in needs:
        if need.kind is NeedKind.MEMORY and need.urgency is Urgency.MENDS and need.name in away:
            continue
        if not (need.kind in SHARED or _is_away(need)):
            shown.append(need)
            continue
        group = (need.kind, need.urgency, need.name)
        if group not in groups:
            shown.append(group)
        groups.setdefault(group, []).append(need)
    return [one if isinstance(one, Need) else _together(groups[one]) for one in shown]


def _is_away(need: Need) -> bool:
    return need.kind is NeedKind.DELIVERY and need.urgency is Urgency.MENDS and need.until is not None


def _together(needs: Sequence[Need]) -> Need:
    first = needs[0]
    if len(needs) == 1:
        return first
    agents = sorted(need.agent for need in needs)
    what = first.what.replace(f" of {first.agent}", f" of {len(agents)} agents")
    if _is_away(first):
        what = f"{first.name} takes no deliveries of {len(agents)} agents; they are tried again in order, none lost"
    return replace(
        first,
        agent="",
        what=what,
        evidence=f"{', '.join(agents)}: {first.evidence}",
        since=min(need.since for need in needs),
        until=min((need.until for need in needs if need.until is not None), default=None),
    )
