"""Erasing a session or a person at Honcho (D25): done when it is really gone, and not before.

Rule 1: Honcho deletes whole sessions only, and later: at once for writers, but its messages can be read until its
        deriver comes round. Until they cannot, erasing is under way, and not done.
Rule 2: a Honcho session that others share is not deleted; the outcome says which, and that only people can decide.
Rule 3: with a session go the conclusions drawn in it; with a person all that was concluded by or about them, and
        their card.
"""

from collections.abc import Mapping
from enum import Enum

from holdfast.core.delivery import Delivered, Erasure, Landing, Outcome, Refused, Unreachable
from holdfast.core.honcho_naming import HonchoNames
from holdfast.providers.honcho.client import Calls
from holdfast.providers.honcho.faults import CallFailed
from holdfast.providers.honcho.words import said

LOOK_AGAIN_MS = 10_000


class Left(Enum):
    """What is still there of a place."""

    NOTHING = "nothing"
    UNDER_WAY = "under way"
    SHARED = "shared"


async def erase(calls: Calls, names: HonchoNames, erasure: Erasure) -> Outcome:
    try:
        left = {place: await _erase_place(calls, place, _owned(erasure)) for place in erasure.places}
        if erasure.principal is not None:
            await _erase_person(calls, names.person_peer(erasure.agent, erasure.principal))
    except CallFailed as failure:
        return Unreachable(failure.outcome.reason)  # repeating it does no harm, so nothing about it is uncertain
    if Left.UNDER_WAY in left.values():
        return Unreachable("deletion is under way at Honcho", retry_after_ms=LOOK_AGAIN_MS)
    shared = [place for place, state in left.items() if state is Left.SHARED]
    if shared:
        return Refused(
            f"Honcho deletes whole sessions only, and {', '.join(shared)} also holds what is to stay: "
            "delete it there, or keep it"
        )
    return Delivered(f"{len(left)} sessions gone")


async def erased(calls: Calls, names: HonchoNames, erasure: Erasure) -> Landing:
    try:
        left = sum([await calls.count(place, _owned(erasure)) for place in erasure.places])
        if erasure.principal is not None:
            left += len(await _concluded(calls, names.person_peer(erasure.agent, erasure.principal)))
    except CallFailed:
        return Landing.POSSIBLE
    return Landing.ABSENT if left else Landing.LANDED


def _owned(erasure: Erasure) -> dict[str, str]:
    """What the metadata of a message says that is to be erased."""
    whose = {"session": erasure.session, "user": erasure.principal}
    return {"agent": erasure.agent} | {key: said(value) for key, value in whose.items() if value is not None}


async def _erase_place(calls: Calls, place: str, owned: Mapping[str, object]) -> Left:
    every, mine = await calls.count(place), await calls.count(place, owned)
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
