"""Notes of the agent's memory as conclusions, with the same guarantee as turns (R20).

A conclusion has neither an id of ours nor metadata. It is identified by its content between two peers: the agent, which
concludes, and the subject of the note, which is a person or a peer that stands for the note's scope. A lane has one
writer, so no other writer changes the conclusions between listing and writing.

Rule 1: the first attempt of an `add` sends; every other operation lists first, and does only what is missing.
Rule 2: a replacement is written before the old text is deleted: a crash in between leaves both, never neither.
Rule 3: delivered means listed, once: a second copy that an earlier attempt left behind is deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from honcho.conclusions import Conclusion  # type: ignore[import-untyped]

from holdfast.kernel.ids import AgentName
from holdfast.memory.delivery import Delivered, Landing, MemoryNote, Outcome, Parcel, Refused, Uncertain, Unreachable
from holdfast.memory.notes import Target
from holdfast.memory.visibility import SHARED
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.faults import HonchoCallFailed
from holdfast.providers.honcho.messages import CONCLUSION_CHARS_MAX, encode_text
from holdfast.providers.honcho.naming import HonchoNames


@dataclass(frozen=True, slots=True)
class ConclusionGoal:
    """The text that shall stand between two peers, and the text that shall not. Either may be empty."""

    observer: str
    observed: str
    text: str
    gone: str

    def missing(self, listed: Sequence[Conclusion]) -> bool:
        return bool(self.text) and all(one.content != self.text for one in listed)

    def surplus(self, listed: Sequence[Conclusion]) -> list[str]:
        """The ids to delete: the text that no longer holds, and every copy but one of the text that does."""
        copies = [one.id for one in listed if one.content == self.text]
        return [one.id for one in listed if self.gone and one.content == self.gone] + copies[1:]

    def is_met(self, listed: Sequence[Conclusion]) -> bool:
        return not self.missing(listed) and not self.surplus(listed)


def pair_of(names: HonchoNames, agent: AgentName, scope: str, target: str) -> tuple[str, str]:
    """Observer and observed. Each target and scope has its own pair, so equal texts in two of them stay two, and every
    conclusion of a pair belongs to its scope."""
    peer = names.scope_peer(agent, scope)
    return (peer, names.notes_peer(agent)) if target == Target.MEMORY.value else (names.agent_peer(agent), peer)


def old_pairs(names: HonchoNames, agent: AgentName) -> tuple[tuple[str, str], ...]:
    """The pairs under which earlier releases stored every shared note. They are erased, never recalled."""
    observer = names.agent_peer(agent)
    return (observer, names.notes_peer(agent)), (observer, names.person_peer(agent, ""))


def _goals(parcel: Parcel, note: MemoryNote, names: HonchoNames) -> list[ConclusionGoal]:
    """The note's own pair first, then the pairs of another scope or an earlier release that held the old text."""
    agent, text, gone = parcel.naming.agent, encode_text(note.text).strip(), encode_text(note.old_text).strip()
    pairs = [pair_of(names, agent, note.old_scope, note.target)] if note.old_scope != note.scope else []
    pairs += old_pairs(names, agent) if SHARED in (note.scope, note.old_scope) else ()
    own = ConclusionGoal(*pair_of(names, agent, note.scope, note.target), text, gone if gone != text else "")
    return [own, *(ConclusionGoal(*pair, "", gone) for pair in pairs if gone)]


async def remember(client: HonchoClient, names: HonchoNames, parcel: Parcel) -> Outcome:
    note = parcel.note
    if note is None or not (note.text.strip() or note.old_text.strip()):
        return Refused("the note has no text")
    own, *former = _goals(parcel, note, names)
    if len(own.text) > CONCLUSION_CHARS_MAX:
        return Refused(f"the note has {len(own.text)} characters; Honcho takes {CONCLUSION_CHARS_MAX}")
    try:
        listed = await _listed(client, own) if parcel.attempt > 1 or own.gone else []
        if own.missing(listed):
            await _conclude(client, own)
    except HonchoCallFailed as failure:
        return failure.outcome
    for goal in former:
        outcome = await _remove_surplus(client, goal)
        if not isinstance(outcome, Delivered):
            return outcome
    return await _remove_surplus(client, own)


async def remembered(client: HonchoClient, names: HonchoNames, parcel: Parcel) -> Landing:
    """A replacement that landed by half counts as absent: sending it again does the other half."""
    if parcel.note is None:
        return Landing.ABSENT
    try:
        done = [goal.is_met(await _listed(client, goal)) for goal in _goals(parcel, parcel.note, names)]
    except HonchoCallFailed:
        return Landing.POSSIBLE
    return Landing.LANDED if all(done) else Landing.ABSENT


async def _remove_surplus(client: HonchoClient, goal: ConclusionGoal) -> Outcome:
    """Delete the surplus conclusions, and list them once more."""
    try:
        listed = await _listed(client, goal)
        for one in goal.surplus(listed):
            await client.delete_conclusion(one)
        if goal.surplus(listed):
            listed = await _listed(client, goal)
    except HonchoCallFailed as failure:
        return failure.after_a_part("a part of it may have arrived, then")
    if not goal.is_met(listed):
        return Uncertain("Honcho acknowledged the conclusion but does not list it")
    kept = next((f"conclusion {one.id}" for one in listed if one.content == goal.text), "it is deleted")
    return Delivered(kept)


async def _conclude(client: HonchoClient, goal: ConclusionGoal) -> None:
    """Honcho answers 404, and stores nothing, if a peer does not exist yet: then both are made first."""
    try:
        await client.conclude(goal.observer, goal.observed, goal.text)
    except HonchoCallFailed as failure:
        if failure.status != 404 or not isinstance(failure.outcome, Unreachable):
            raise  # a 404 that is not Honcho's own proves nothing about the peers or the conclusion
        for peer in {goal.observer, goal.observed}:
            await client.make_peer(peer)
        await client.conclude(goal.observer, goal.observed, goal.text)


async def _listed(client: HonchoClient, goal: ConclusionGoal) -> list[Conclusion]:
    return await client.conclusions(observer_id=goal.observer, observed_id=goal.observed)
