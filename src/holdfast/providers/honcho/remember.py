"""Notes of the agent's memory as conclusions, with the same guarantee as turns (R20).

A conclusion has neither an id of ours nor metadata, so it is known by its content between two peers: the agent, who
concludes, and whom the note is about: a person, or a peer that stands for its scope. A lane has one writer, so nobody
else changes what was listed before.

Rule 1: the first attempt of an `add` sends; whatever else there is lists first, and does only what is missing.
Rule 2: a replacement is written before what it replaces is deleted: a crash in between leaves both, never neither.
Rule 3: delivered means listed, once: a second copy that an earlier attempt left behind is deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kernel.ids import AgentName
from holdfast.memory.delivery import Delivered, Landing, MemoryNote, Outcome, Parcel, Refused, Uncertain, Unreachable
from holdfast.memory.notes import Target
from holdfast.memory.visibility import SHARED
from holdfast.providers.honcho.client import Calls, Kept
from holdfast.providers.honcho.faults import CallFailed
from holdfast.providers.honcho.naming import HonchoNames
from holdfast.providers.honcho.words import CONCLUSION_CHARS_MAX, said


@dataclass(frozen=True, slots=True)
class Wish:
    """What shall hold between two peers, and what shall not. Either may be empty."""

    observer: str
    observed: str
    text: str
    gone: str

    def missing(self, held: Sequence[Kept]) -> bool:
        return bool(self.text) and all(kept.text != self.text for kept in held)

    def surplus(self, held: Sequence[Kept]) -> list[str]:
        """What is to be deleted: the text that no longer holds, and every copy but one of that which does."""
        copies = [kept.id for kept in held if kept.text == self.text]
        return [kept.id for kept in held if self.gone and kept.text == self.gone] + copies[1:]

    def holds(self, held: Sequence[Kept]) -> bool:
        return not self.missing(held) and not self.surplus(held)


def pair_of(names: HonchoNames, agent: AgentName, scope: str, target: str) -> tuple[str, str]:
    """Observer and observed. Each target and scope has a pair of its own, so that equal texts in two of them stay
    two, and so that whatever is asked of a pair is known to be of its scope."""
    peer = names.scope_peer(agent, scope)
    return (peer, names.notes_peer(agent)) if target == Target.MEMORY.value else (names.agent_peer(agent), peer)


def old_pairs(names: HonchoNames, agent: AgentName) -> tuple[tuple[str, str], ...]:
    """Where earlier releases concluded every shared note, whoever it came from. They are erased, never recalled."""
    observer = names.agent_peer(agent)
    return (observer, names.notes_peer(agent)), (observer, names.person_peer(agent, ""))


def wish_of(parcel: Parcel, note: MemoryNote, names: HonchoNames) -> Wish:
    observer, observed = pair_of(names, parcel.naming.agent, note.scope, note.target)
    text, gone = said(note.text).strip(), said(note.old_text).strip()
    return Wish(observer=observer, observed=observed, text=text, gone=gone if gone != text else "")


def former_of(parcel: Parcel, note: MemoryNote, names: HonchoNames) -> list[Wish]:
    """What shall not hold any more under another scope, or where an earlier release concluded it."""
    agent, gone = parcel.naming.agent, said(note.old_text).strip()
    if not gone:
        return []
    pairs = [pair_of(names, agent, note.old_scope, note.target)] if note.old_scope != note.scope else []
    pairs += old_pairs(names, agent) if SHARED in (note.scope, note.old_scope) else ()
    return [Wish(observer=observer, observed=observed, text="", gone=gone) for observer, observed in pairs]


async def remember(calls: Calls, names: HonchoNames, parcel: Parcel) -> Outcome:
    note = parcel.note
    if note is None or not (note.text.strip() or note.old_text.strip()):
        return Refused("the note has no text")
    wish = wish_of(parcel, note, names)
    if len(wish.text) > CONCLUSION_CHARS_MAX:
        return Refused(f"the note has {len(wish.text)} characters; Honcho takes {CONCLUSION_CHARS_MAX}")
    try:
        held = await _held(calls, wish) if parcel.attempt > 1 or wish.gone else []
        if wish.missing(held):
            await _conclude(calls, wish)
    except CallFailed as failure:
        return failure.outcome
    for former in former_of(parcel, note, names):
        outcome = await _tidied(calls, former)
        if not isinstance(outcome, Delivered):
            return outcome
    return await _tidied(calls, wish)


async def remembered(calls: Calls, names: HonchoNames, parcel: Parcel) -> Landing:
    """A replacement of which only one half was done counts as absent: sending it again does the other half."""
    if parcel.note is None:
        return Landing.ABSENT
    wishes = [wish_of(parcel, parcel.note, names), *former_of(parcel, parcel.note, names)]
    try:
        done = [wish.holds(await _held(calls, wish)) for wish in wishes]
        return Landing.LANDED if all(done) else Landing.ABSENT
    except CallFailed:
        return Landing.POSSIBLE


async def _tidied(calls: Calls, wish: Wish) -> Outcome:
    """Delete what is not to hold, and look once more."""
    try:
        held = await _held(calls, wish)
        for one in wish.surplus(held):
            await calls.delete_conclusion(one)
        if wish.surplus(held):
            held = await _held(calls, wish)
    except CallFailed as failure:
        why = f"a part of it may have landed; then {failure.outcome.reason}"
        return Uncertain(why, vendor=failure.outcome.vendor)
    if not wish.holds(held):
        return Uncertain("Honcho acknowledged the conclusion and does not list it so")
    return Delivered(
        next((f"conclusion {kept.id}" for kept in held if kept.text == wish.text), "nothing is left of it")
    )


async def _conclude(calls: Calls, wish: Wish) -> None:
    """A peer that does not exist yet is 404, and nothing was stored: make both, then conclude."""
    try:
        await calls.conclude(wish.observer, wish.observed, wish.text)
    except CallFailed as failure:
        if failure.status != 404 or not isinstance(failure.outcome, Unreachable):
            raise  # a 404 that is not Honcho's own proves nothing about the peers, nor about the conclusion
        for peer in {wish.observer, wish.observed}:
            await calls.make_peer(peer)
        await calls.conclude(wish.observer, wish.observed, wish.text)


async def _held(calls: Calls, wish: Wish) -> list[Kept]:
    return await calls.conclusions(observer_id=wish.observer, observed_id=wish.observed)
