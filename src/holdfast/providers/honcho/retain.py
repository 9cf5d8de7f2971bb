"""Turns, delivered once: what may have landed is listed before anything is sent, and what was sent is listed after.

Rule 1: the first attempt sends. Every later one asks which of its turn ids Honcho has, and sends only the rest; a
        batch is one transaction, but a parcel of more than a hundred messages needs several.
Rule 2: delivered means listed. An answer of 201 alone does not: it can be a proxy's, and it can be wrong.
Rule 3: several parcels may share a request. When Honcho refuses it, each is sent by itself, so that only the bad one
        is refused.
Rule 4: nothing that follows a parcel which was not delivered is sent.

201 means stored, not derived: Honcho queues derivation after its answer and loses it when it is killed in between. No
client can see that; the words are there, and searched, but its picture of the person may lack them.
"""

from collections.abc import Iterator, Sequence

from holdfast.memory.delivery import Delivered, Landing, Outcome, Refused, Uncertain, Unreachable
from holdfast.providers.honcho.client import Calls
from holdfast.providers.honcho.faults import CallFailed
from holdfast.providers.honcho.rendering import Load, Said

BATCH_MAX = 100  # messages of one request; 101 is 422
BATCH_CHARS_MAX = 1_000_000
WAITS = Unreachable("waits behind a parcel that was not delivered")


async def retain(calls: Calls, place: str, loads: Sequence[Load]) -> list[Outcome]:
    """One outcome per load, in order."""
    outcomes: list[Outcome] = []
    for group in _groups(loads):
        outcomes += await _send(calls, place, group)
        if not isinstance(outcomes[-1], Delivered):
            break
    return outcomes + [WAITS] * (len(loads) - len(outcomes))


async def retained(calls: Calls, place: str, load: Load) -> Landing:
    """A part of it counts as absent: sending it again sends only the rest."""
    try:
        found = await calls.find(place, load.turn_ids)
    except CallFailed:
        return Landing.POSSIBLE
    return Landing.LANDED if all(one in found for one in load.turn_ids) else Landing.ABSENT


async def _send(calls: Calls, place: str, group: Sequence[Load]) -> list[Outcome]:
    try:
        missing = await _missing(calls, place, group)
        for index, batch in enumerate(_batches(missing)):
            await _add(calls, place, batch, first=index == 0)
    except CallFailed as failure:
        if isinstance(failure.outcome, Refused) and len(group) > 1:
            return await _one_by_one(calls, place, group)
        return [failure.outcome] * len(group)
    return await _confirmed(calls, place, group)


async def _missing(calls: Calls, place: str, group: Sequence[Load]) -> list[Said]:
    tried = [one for load in group if load.parcel.attempt > 1 for one in load.turn_ids]
    found = await calls.find(place, tried) if tried else {}
    return [message for load in group for message in load.messages if message.turn_id not in found]


async def _add(calls: Calls, place: str, batch: Sequence[Said], *, first: bool) -> None:
    """Once a part of a parcel has landed, `Unreachable` would no longer be true."""
    try:
        await calls.add(place, batch)
    except CallFailed as failure:
        if first or not isinstance(failure.outcome, Unreachable):
            raise
        why = f"a part of it landed; then {failure.outcome.reason}"
        raise CallFailed(Uncertain(why, vendor=failure.outcome.vendor)) from None


async def _one_by_one(calls: Calls, place: str, group: Sequence[Load]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for load in group:
        outcomes += await _send(calls, place, [load])
        if not isinstance(outcomes[-1], Delivered):
            break
    return outcomes + [WAITS] * (len(group) - len(outcomes))


async def _confirmed(calls: Calls, place: str, group: Sequence[Load]) -> list[Outcome]:
    try:
        found = await calls.find(place, [one for load in group for one in load.turn_ids])
    except CallFailed as failure:
        why = f"sent, but Honcho could not be asked for it: {failure.outcome.reason}"
        return [Uncertain(why, vendor=failure.outcome.vendor)] * len(group)
    return [_judged(load, found) for load in group]


def _judged(load: Load, found: dict[str, list[str]]) -> Outcome:
    if not load.messages:
        return Delivered("nothing to keep")
    there = [found[one] for one in load.turn_ids if one in found]
    if len(there) < len(load.messages):
        return Uncertain(f"Honcho acknowledged {len(load.messages)} messages and lists {len(there)} of them")
    twice = sum(len(ids) - 1 for ids in there)
    doubt = f", {twice} possibly twice" if twice else ""
    return Delivered(f"{len(there)} messages, {there[0][0]} to {there[-1][-1]}{doubt}")


def _chars(messages: Sequence[Said]) -> int:
    return sum(len(message.text) for message in messages)


def _groups(loads: Sequence[Load]) -> Iterator[list[Load]]:
    """Loads that fit into one request. One that does not stands alone, and so does one that was tried before: what
    something on the way refused as too large would be refused again in the same company."""
    group: list[Load] = []
    for load in loads:
        together = [message for one in (*group, load) for message in one.messages]
        tried = load.parcel.attempt > 1 or any(one.parcel.attempt > 1 for one in group)
        if group and (tried or len(together) > BATCH_MAX or _chars(together) > BATCH_CHARS_MAX):
            yield group
            group = []
        group.append(load)
    if group:
        yield group


def _batches(messages: Sequence[Said]) -> Iterator[list[Said]]:
    batch: list[Said] = []
    for message in messages:
        if batch and (len(batch) == BATCH_MAX or _chars([*batch, message]) > BATCH_CHARS_MAX):
            yield batch
            batch = []
        batch.append(message)
    if batch:
        yield batch
