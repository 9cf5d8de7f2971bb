"""The model's `memory` tool: add, replace, remove, read, alone or as a batch that is applied whole or not at all.

The origin of a batch is the call itself, so a call that is repeated after a crash changes nothing: the tool is offered
as idempotent. It knows no store; it is given an `apply` and a `look`. What cannot be done is told with the entries as
they are, so that the model can do it right in its next call.

It writes words to the conversation's own scope only: anywhere else they would be shown to other people. A note that the
same person has elsewhere (a linked account, an earlier release) can be removed from here, or replaced.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.inbox.address import PART_CHARS_MAX
from holdfast.kernel.errors import MemoryWriteBlocked
from holdfast.memory.notes import (
    Applied,
    Capacity,
    Memory,
    MemoryBatch,
    MemoryOutcome,
    MemoryVerb,
    NotApplied,
    NoteChange,
    Target,
)
from holdfast.memory.notes_prompt import CONSOLIDATE_PERCENT, is_nearly_full, percent
from holdfast.memory.notes_safety import reason_to_block
from holdfast.memory.visibility import Audience, ShownEntry, ShownNotes, is_group
from holdfast.turns.tool import ToolContext

NAME = "memory"
Apply: TypeAlias = Callable[[MemoryBatch], Awaitable[MemoryOutcome]]
Look: TypeAlias = Callable[[Audience], Awaitable[ShownNotes]]
Answer: TypeAlias = dict[str, object]
MemoryTool: TypeAlias = Callable[..., Awaitable[Answer]]
DONE = {MemoryVerb.ADD: "added", MemoryVerb.REPLACE: "replaced", MemoryVerb.REMOVE: "removed"}
CONSOLIDATE = (
    f"Memory is more than {CONSOLIDATE_PERCENT} % full. Consolidate before adding: merge related entries with replace,"
    " and remove what no longer matters, in one batch of operations."
)


class MemoryWish(Struct, frozen=True, forbid_unknown_fields=True):
    """One operation of a batch."""

    action: Literal["add", "replace", "remove"]
    content: str = ""
    old_text: str = ""
    version: int | None = None


def make_memory_tool(
    apply: Apply,
    look: Look,
    *,
    capacity: Capacity | None = None,
    private_in_groups: bool = False,
    shares_all: bool = False,
) -> MemoryTool:
    """The function to offer: `toolbox.add(make_memory_tool(...), idempotent=True)`."""
    room = capacity or Capacity()

    async def memory(
        *,
        action: Literal["add", "replace", "remove", "read"] = "read",
        target: Literal["memory", "user"] = "memory",
        content: str = "",
        old_text: str = "",
        version: int | None = None,
        operations: list[MemoryWish] | None = None,
        context: ToolContext,
    ) -> Answer:
        """Keep short notes that last beyond this conversation.

        Targets: `memory` for your own notes (facts, conventions, lessons), `user` for what you know about the person.
        Actions: `add` content; `replace` the entry that holds old_text by content; `remove` the entry that holds
        old_text; `read` all entries. old_text is a part that only one entry has; version names an entry exactly.
        `operations` is a list of such changes to one target, made together or not at all: use it to make room.
        Write plain sentences about what will still matter later. Notes are limited in size.
        """
        about = Target(target)
        audience = replace(_audience(context), private_in_groups=private_in_groups, shares_all=shares_all)
        wishes = operations or ([] if action == "read" else [MemoryWish(action, content, old_text, version)])
        if not wishes:
            return _shown(await look(audience), about, room)
        batch = MemoryBatch(
            agent=context.agent,
            subject=audience.own,
            origin=origin_of(context),
            changes=tuple(_change(wish, about) for wish in wishes),
            principal=context.principal,
            capacity=room,
            session=context.session,
            fence=context.fence,
        )
        old = _elsewhere(await look(audience), wishes, about)
        if old is not None:
            return await _move(apply, look, audience, batch, old, room)
        outcome = await apply(batch)
        if isinstance(outcome, NotApplied):
            return _refusal(outcome, wishes, await look(audience), about, room)
        return _answer(outcome, batch, (await look(audience)).own, room)

    return memory


def _elsewhere(shown: ShownNotes, wishes: Sequence[MemoryWish], target: Target) -> ShownEntry | None:
    """The one entry that a lone wish is about, where the person has it under another scope."""
    old = wishes[0].old_text.strip()
    if len(wishes) > 1 or wishes[0].action == "add" or not old or any(old in one.text for one in shown.own.of(target)):
        return None
    found = [one for one in shown.others_of(target) if not one.is_shared and old in one.entry.text]
    return found[0] if len(found) == 1 else None


async def _move(  # noqa: PLR0917 - what the tool has at hand
    apply: Apply, look: Look, audience: Audience, batch: MemoryBatch, old: ShownEntry, room: Capacity
) -> Answer:
    """The new words first, then the removal. An origin counts in its own scope, so a repeat does what is missing."""
    (change,) = batch.changes
    if change.verb is MemoryVerb.REPLACE:
        added = replace(batch, changes=(NoteChange(verb=MemoryVerb.ADD, target=change.target, text=change.text),))
        outcome = await apply(added)
        if isinstance(outcome, NotApplied):
            return _refusal(outcome, (MemoryWish("add"),), await look(audience), change.target, room)
    gone = NoteChange(verb=MemoryVerb.REMOVE, target=change.target, version=old.entry.seq)
    removal = replace(batch, subject=old.subject, changes=(gone,))
    outcome = await apply(removal)
    if isinstance(outcome, NotApplied):
        return _refusal(outcome, (MemoryWish("remove"),), await look(audience), change.target, room)
    answer = _answer(outcome, removal, (await look(audience)).own, room)
    return {**answer, "changed": [DONE[change.verb]]}


def origin_of(context: ToolContext) -> str:
    """The same for every repetition of one call. Models name their calls, so a name may be anything."""
    origin = f"tool:{context.session}:{context.turn}:{context.call}"
    if len(origin) <= PART_CHARS_MAX and origin.isprintable():
        return origin
    return f"tool:{sha256(origin.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _change(wish: MemoryWish, target: Target) -> NoteChange:
    return NoteChange(
        verb=MemoryVerb(wish.action), target=target, text=wish.content, old=wish.old_text, version=wish.version
    )


def _answer(outcome: Applied, batch: MemoryBatch, memory: Memory, capacity: Capacity) -> Answer:
    target = batch.changes[0].target
    changed = [
        f"{DONE[change.verb]} as version {seq}" if seq else "nothing to do: it is there already"
        for change, seq in zip(batch.changes, outcome.seqs, strict=True)
    ]
    answer: Answer = {"ok": True, "target": target.value, "changed": changed, "used": _used(memory, target, capacity)}
    if is_nearly_full(memory, target, capacity):
        answer["advice"] = CONSOLIDATE
    return answer


def _refusal(
    outcome: NotApplied, wishes: Sequence[MemoryWish], shown: ShownNotes, target: Target, capacity: Capacity
) -> Answer:
    many = len(wishes) > 1
    which = f"operation {outcome.position + 1}: " if many else ""
    nothing = " None of the operations was made." if many else ""
    reason = outcome.reason
    wish = wishes[outcome.position]
    if outcome.code == "no_match" and any(wish.old_text in one.entry.text for one in shown.others_of(target)):
        reason = "that entry is read-only here: the operator shares it, or it was noted from another account"
    own = ShownNotes(outcome.memory, shown.others)
    answer: Answer = {
        **_shown(own, target, capacity),
        "ok": False,
        "code": MemoryWriteBlocked.code if outcome.code == "blocked" else outcome.code,
        "error": f"{which}{reason}.{nothing}",
    }
    if outcome.code == "over_capacity":
        answer["advice"] = CONSOLIDATE
    return answer


def _shown(shown: ShownNotes, target: Target, capacity: Capacity) -> Answer:
    """Entries that can be changed have a version; the others are shown to be read."""
    memory = shown.own
    entries: list[Answer] = [{"version": entry.seq, "text": _safe(entry.text)} for entry in memory.of(target)]
    entries += [{"read_only": True, "text": _safe(one.entry.text)} for one in shown.others_of(target)]
    answer: Answer = {
        "ok": True,
        "target": target.value,
        "entries": entries,
        "used": _used(memory, target, capacity),
    }
    if is_nearly_full(memory, target, capacity):
        answer["advice"] = CONSOLIDATE
    return answer


def _audience(context: ToolContext) -> Audience:
    return Audience(
        agent=context.agent,
        principal=context.principal,
        address=context.address,
        session=context.session,
        is_group=context.shared or is_group(context.address),
    )


def _safe(text: str) -> str:
    reason = reason_to_block(text)
    return text if reason is None else f"[BLOCKED: {reason}]"


def _used(memory: Memory, target: Target, capacity: Capacity) -> str:
    used, limit = memory.used_chars(target), capacity.of(target)
    return f"{used} of {limit} characters ({percent(used, limit)} %)"
