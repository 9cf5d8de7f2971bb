"""Delivering turns exactly once: messages that may have landed are listed before sending, and all are listed after.

Rule 1: the first attempt sends. Every later one asks which of its turn ids Honcho lists, and sends only the rest. A
        batch is one transaction, but a parcel of more than a hundred messages needs several.
Rule 2: delivered means listed. A 201 alone proves nothing: it can be a proxy's, and it can be wrong.
Rule 3: several parcels may share a request. If Honcho refuses it, each parcel is sent by itself, so that only the bad
        one is refused.
Rule 4: no parcel is sent after one that was not delivered.

201 means stored, not derived: Honcho queues the derivation after its response and loses it if it is killed in between.
No client can see that; the messages are stored and searchable, but Honcho's model of the person may lack them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]

from holdfast.memory.delivery import Delivered, Landing, Outcome, Parcel, Refused, Uncertain, Unreachable
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.faults import HonchoCallFailed
from holdfast.providers.honcho.messages import render, turn_id_of
from holdfast.providers.honcho.naming import HonchoNames

BATCH_MAX = 100  # messages per request; Honcho answers 101 with 422
BATCH_CHARS_MAX = 1_000_000
T = TypeVar("T")
WAITS = Unreachable("it waits for an earlier delivery that failed")


class RenderedParcel(NamedTuple):
    is_retry: bool
    messages: list[MessageCreateParams]

    @property
    def turn_ids(self) -> list[str]:
        return [turn_id_of(message) for message in self.messages]


async def retain(client: HonchoClient, names: HonchoNames, place: str, parcels: Sequence[Parcel]) -> list[Outcome]:
    """One outcome per parcel, in order."""
    rendered = [RenderedParcel(parcel.attempt > 1, render(parcel, names)) for parcel in parcels]
    return await _in_order(client, place, list(_grouped(rendered, _go_together)))


async def retained(client: HonchoClient, names: HonchoNames, parcel: Parcel) -> Landing:
    """A parcel that landed in part counts as absent: sending it again sends only the rest."""
    turn_ids = [turn_id_of(message) for message in render(parcel, names)]
    try:
        found = await client.find(parcel.place, turn_ids)
    except HonchoCallFailed:
        return Landing.POSSIBLE
    return Landing.LANDED if all(one in found for one in turn_ids) else Landing.ABSENT


async def _in_order(client: HonchoClient, place: str, groups: Sequence[Sequence[RenderedParcel]]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for group in groups:
        outcomes += await _send(client, place, group)
        if not isinstance(outcomes[-1], Delivered):
            break
    return outcomes + [WAITS] * (sum(map(len, groups)) - len(outcomes))


async def _send(client: HonchoClient, place: str, group: Sequence[RenderedParcel]) -> list[Outcome]:
    try:
        missing = await _missing(client, place, group)
        for index, batch in enumerate(_grouped(missing, _fits)):
            await _add(client, place, batch, first=index == 0)
    except HonchoCallFailed as failure:
        if isinstance(failure.outcome, Refused) and len(group) > 1:
            return await _in_order(client, place, [[one] for one in group])
        return [failure.outcome] * len(group)
    return await _confirmed(client, place, group)


async def _missing(client: HonchoClient, place: str, group: Sequence[RenderedParcel]) -> list[MessageCreateParams]:
    tried = [turn_id for one in group if one.is_retry for turn_id in one.turn_ids]
    found = await client.find(place, tried) if tried else {}
    return [message for one in group for message in one.messages if turn_id_of(message) not in found]


async def _add(client: HonchoClient, place: str, batch: Sequence[MessageCreateParams], *, first: bool) -> None:
    """After the first batch a part of the parcel has landed, so `Unreachable` would be wrong."""
    try:
        await client.add(place, batch)
    except HonchoCallFailed as failure:
        if first or not isinstance(failure.outcome, Unreachable):
            raise
        raise HonchoCallFailed(failure.after_a_part("a part of it landed, then")) from None


async def _confirmed(client: HonchoClient, place: str, group: Sequence[RenderedParcel]) -> list[Outcome]:
    try:
        found = await client.find(place, [turn_id for one in group for turn_id in one.turn_ids])
    except HonchoCallFailed as failure:
        return [failure.after_a_part("sent, but Honcho could not be asked for it")] * len(group)
    return [_outcome(one, found) for one in group]


def _outcome(parcel: RenderedParcel, found: dict[str, list[str]]) -> Outcome:
    if not parcel.messages:
        return Delivered("there was nothing to store")
    listed = [found[turn_id] for turn_id in parcel.turn_ids if turn_id in found]
    if len(listed) < len(parcel.messages):
        return Uncertain(f"Honcho acknowledged {len(parcel.messages)} messages and lists {len(listed)} of them")
    copies = sum(len(ids) - 1 for ids in listed)
    doubt = f", {copies} possibly twice" if copies else ""
    return Delivered(f"{len(listed)} messages, {listed[0][0]} to {listed[-1][-1]}{doubt}")


def _fits(messages: Sequence[MessageCreateParams]) -> bool:
    return len(messages) <= BATCH_MAX and sum(len(message.content) for message in messages) <= BATCH_CHARS_MAX


def _go_together(parcels: Sequence[RenderedParcel]) -> bool:
    """Whether parcels fit into one request. A retry is sent alone: a proxy that refused the request as too large would
    refuse the same group again."""
    is_retry = any(one.is_retry for one in parcels)
    return not is_retry and _fits([message for one in parcels for message in one.messages])


def _grouped(items: Iterable[T], fit: Callable[[Sequence[T]], bool]) -> Iterator[list[T]]:
    """The items in groups that fit, in order; one that is too large is alone."""
    group: list[T] = []
    for item in items:
        if group and not fit([*group, item]):
            yield group
            group = []
        group.append(item)
    if group:
        yield group
