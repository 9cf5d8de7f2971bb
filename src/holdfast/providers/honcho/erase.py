"""Erasing a session or a person at Honcho (D25): delivered only when the messages can no longer be read.

Rule 1: Honcho deletes whole sessions only, and asynchronously: writers are refused at once, but the messages can be
        read until its deriver runs. Until then the outcome says that the deletion is under way.
Rule 2: a Honcho session that also holds other people's messages is not deleted; the outcome names it, and the operator
        has to decide.
Rule 3: erasing a session deletes the conclusions drawn in it. Erasing a person deletes all conclusions by or about
        them, their card, and their notes in groups.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from holdfast.memory.delivery import Delivered, Erasure, Landing, Outcome, Refused, Unreachable
from holdfast.memory.notes import Target
from holdfast.memory.visibility import SHARED, person_of
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.faults import HonchoCallFailed
from holdfast.providers.honcho.messages import encode_text
from holdfast.providers.honcho.naming import HonchoNames
from holdfast.providers.honcho.remember import old_pairs, pair_of

LOOK_AGAIN_MS = 10_000
UNITS_MAX = 100  # per question
Metadata: TypeAlias = Mapping[str, object]


class Remainder(Enum):
    """What a place still holds."""

    NOTHING = "nothing"
    UNDER_WAY = "under way"
    SHARED = "shared"


async def erase(client: HonchoClient, names: HonchoNames, erasure: Erasure) -> Outcome:
    try:
        filters = _filters(names, erasure)
        left = {place: await _erase_place(client, place, owned) for place, owned in filters.items()}
        if erasure.principal is not None:
            peer = names.person_peer(erasure.agent, erasure.principal)
            for one in await _concluded(client, peer):
                await client.delete_conclusion(one)
            await client.clear_card(peer)
        for one in await _notes_left(client, names, erasure):
            await client.delete_conclusion(one)
    except HonchoCallFailed as failure:
        # An erasure can be repeated without harm, so it is never uncertain.
        return Unreachable(failure.outcome.reason, vendor=failure.outcome.vendor)
    if Remainder.UNDER_WAY in left.values():
        return Unreachable("deletion is under way at Honcho", retry_after_ms=LOOK_AGAIN_MS)
    shared = [place for place, state in left.items() if state is Remainder.SHARED]
    if shared:
        return Refused(
            f"Honcho deletes whole sessions only, and {', '.join(shared)} also holds messages that must stay: "
            "delete the session at Honcho, or keep it"
        )
    return Delivered("erased")


async def erased(client: HonchoClient, names: HonchoNames, erasure: Erasure) -> Landing:
    try:
        left = sum([await _owned(client, place, owned) for place, owned in _filters(names, erasure).items()])
        if erasure.principal is not None:
            left += len(await _concluded(client, names.person_peer(erasure.agent, erasure.principal)))
        left += len(await _notes_left(client, names, erasure))
    except HonchoCallFailed:
        return Landing.POSSIBLE
    return Landing.ABSENT if left else Landing.LANDED


def _filters(names: HonchoNames, erasure: Erasure) -> dict[str, list[Metadata]]:
    """Each place, with metadata filters; a message that matches any of them is to be erased.

    If the units are known, the filters name them, so that a repeated erasure spares later messages.
    """
    whose = {"session": erasure.session, "user": erasure.principal}
    encoded = {key: encode_text(one) for key, one in whose.items() if one is not None}
    by_owner: Metadata = {"agent": erasure.agent, **encoded}
    named = (*erasure.deliveries, *erasure.shared)
    units = [named[start : start + UNITS_MAX] for start in range(0, len(named), UNITS_MAX)]
    by_unit: list[Metadata] = [{"delivery": {"in": list(some)}} for some in units]
    places = dict.fromkeys(erasure.places, by_unit or [by_owner])
    if erasure.principal is not None:  # no delivery moved the memory files
        places[names.files_place(erasure.agent, erasure.principal)] = [by_owner]
    return places


async def _owned(client: HonchoClient, place: str, filters: Sequence[Metadata]) -> int:
    return sum([await client.count(place, metadata) for metadata in filters])


async def _erase_place(client: HonchoClient, place: str, filters: Sequence[Metadata]) -> Remainder:
    total, owned = await client.count(place), await _owned(client, place, filters)
    if total and not owned:
        return Remainder.NOTHING  # the messages there belong to others
    if owned < total:
        return Remainder.SHARED
    if total:
        await client.delete_session(place)
    for conclusion in await client.conclusions(session_id=place):
        await client.delete_conclusion(conclusion.id)
    return Remainder.UNDER_WAY if await client.count(place) else Remainder.NOTHING


async def _concluded(client: HonchoClient, peer: str) -> set[str]:
    about, by = await client.conclusions(observed_id=peer), await client.conclusions(observer_id=peer)
    return {conclusion.id for conclusion in (*about, *by)}


async def _notes_left(client: HonchoClient, names: HonchoNames, erasure: Erasure) -> set[str]:
    """Conclusions of remaining scopes, such as a group's, that no longer hold. Their text is gone from the journal, so
    every conclusion whose text is not among the notes that still hold counts."""
    left: set[str] = set()
    for scope in (one for one in erasure.scopes if person_of(one) is None):
        pairs = {target.value: [pair_of(names, erasure.agent, scope, target.value)] for target in Target}
        if scope == SHARED:
            for target, pair in zip(Target, old_pairs(names, erasure.agent), strict=True):
                pairs[target.value].append(pair)
        for target_, asked in pairs.items():
            held = {encode_text(note.text).strip() for note in erasure.holds if note.target == target_}
            for observer, observed in asked:
                found = await client.conclusions(observer_id=observer, observed_id=observed)
                left |= {conclusion.id for conclusion in found if conclusion.content not in held}
    return left
