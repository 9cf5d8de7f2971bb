"""Erasing a session or a person at Honcho (D25): done when it is really gone, and not before.

Rule 1: Honcho deletes whole sessions only, and later: at once for writers, but its messages can be read until its
        deriver comes round. Until they cannot, erasing is under way, and not done.
Rule 2: a Honcho session that others share is not deleted; the outcome says which, and that only people can decide.
Rule 3: with a session go the conclusions drawn in it; with a person all that was concluded by or about them, their
        card, and what they noted in groups.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from holdfast.memory.delivery import Delivered, Erasure, Landing, Outcome, Refused, Unreachable
from holdfast.memory.notes import Target
from holdfast.memory.visibility import SHARED, person_of
from holdfast.providers.honcho.client import Calls
from holdfast.providers.honcho.faults import CallFailed
from holdfast.providers.honcho.naming import HonchoNames
from holdfast.providers.honcho.remember import old_pairs, pair_of
from holdfast.providers.honcho.words import said

LOOK_AGAIN_MS = 10_000
UNITS_MAX = 100  # of one question
Metadata: TypeAlias = Mapping[str, object]


class Left(Enum):
    """What is still there of a place."""

    NOTHING = "nothing"
    UNDER_WAY = "under way"
    SHARED = "shared"


async def erase(calls: Calls, names: HonchoNames, erasure: Erasure) -> Outcome:
    try:
        owners = _owners(names, erasure)
        left = {place: await _erase_place(calls, place, owned) for place, owned in owners.items()}
        if erasure.principal is not None:
            await _erase_person(calls, names.person_peer(erasure.agent, erasure.principal))
        for one in await _notes_left(calls, names, erasure):
            await calls.delete_conclusion(one)
    except CallFailed as failure:
        # Repeating it does no harm, so nothing about it is uncertain.
        return Unreachable(failure.outcome.reason, vendor=failure.outcome.vendor)
    if Left.UNDER_WAY in left.values():
        return Unreachable("deletion is under way at Honcho", retry_after_ms=LOOK_AGAIN_MS)
    shared = [place for place, state in left.items() if state is Left.SHARED]
    if shared:
        return Refused(
            f"Honcho deletes whole sessions only, and {', '.join(shared)} also holds what is to stay: "
            "delete it there, or keep it"
        )
    return Delivered("nothing of it is left")


async def erased(calls: Calls, names: HonchoNames, erasure: Erasure) -> Landing:
    try:
        left = sum([await _mine(calls, place, owned) for place, owned in _owners(names, erasure).items()])
        if erasure.principal is not None:
            left += len(await _concluded(calls, names.person_peer(erasure.agent, erasure.principal)))
        left += len(await _notes_left(calls, names, erasure))
    except CallFailed:
        return Landing.POSSIBLE
    return Landing.ABSENT if left else Landing.LANDED


def _owners(names: HonchoNames, erasure: Erasure) -> dict[str, list[Metadata]]:
    """Each place, and what the metadata of a message there says that is to be erased: any of these.

    Where the units are known they say it, so that repeating an erasure spares what was said since.
    """
    whose = {"session": erasure.session, "user": erasure.principal}
    by_whom: Metadata = {"agent": erasure.agent} | {key: said(one) for key, one in whose.items() if one is not None}
    named = (*erasure.deliveries, *erasure.shared)
    units = [named[start : start + UNITS_MAX] for start in range(0, len(named), UNITS_MAX)]
    by_unit: list[Metadata] = [{"delivery": {"in": list(some)}} for some in units]
    places = dict.fromkeys(erasure.places, by_unit or [by_whom])
    if erasure.principal is not None:  # memory files were moved by no delivery
        places[names.files_place(erasure.agent, erasure.principal)] = [by_whom]
    return places


async def _mine(calls: Calls, place: str, owned: Sequence[Metadata]) -> int:
    return sum([await calls.count(place, metadata) for metadata in owned])


async def _erase_place(calls: Calls, place: str, owned: Sequence[Metadata]) -> Left:
    every, mine = await calls.count(place), await _mine(calls, place, owned)
    if every and not mine:
        return Left.NOTHING  # what is there is somebody else's
    if mine < every:
        return Left.SHARED
    if every:
        await calls.delete_session(place)
    for kept in await calls.conclusions(session_id=place):
        await calls.delete_conclusion(kept.id)
    return Left.UNDER_WAY if await calls.count(place) else Left.NOTHING


async def _erase_person(calls: Calls, peer: str) -> None:
    for one in await _concluded(calls, peer):
        await calls.delete_conclusion(one)
    await calls.clear_card(peer)


async def _concluded(calls: Calls, peer: str) -> set[str]:
    about, by = await calls.conclusions(observed_id=peer), await calls.conclusions(observer_id=peer)
    return {kept.id for kept in (*about, *by)}


async def _notes_left(calls: Calls, names: HonchoNames, erasure: Erasure) -> set[str]:
    """Conclusions of scopes that stay, such as a group's, which hold no more. Their words are gone from the journal, so
    they are found as what is none of the words that still hold."""
    left: set[str] = set()
    for scope in (one for one in erasure.scopes if person_of(one) is None):
        pairs = {target.value: [pair_of(names, erasure.agent, scope, target.value)] for target in Target}
        if scope == SHARED:
            for target, pair in zip(Target, old_pairs(names, erasure.agent), strict=True):
                pairs[target.value].append(pair)
        for target_, asked in pairs.items():
            held = {said(note.text).strip() for note in erasure.holds if note.target == target_}
            for observer, observed in asked:
                found = await calls.conclusions(observer_id=observer, observed_id=observed)
                left |= {kept.id for kept in found if kept.text not in held}
    return left
