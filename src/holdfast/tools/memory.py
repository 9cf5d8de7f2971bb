"""The model's `memory` tool: add, replace, remove and read notes, singly or as an atomic batch.

The origin of a batch is the call itself, so a call that is repeated after a crash changes nothing, and the tool is
idempotent. It does not know the store; it gets the functions `apply` and `look`. A refusal returns the current entries,
so that the model can correct its next call.

The tool writes only to the conversation's own scope: any other scope would show the text to other people. A note that
the same person has in another scope (a linked account, an earlier release) can be removed or replaced from here.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.inbox.address import PART_CHARS_MAX
from holdfast.kernel.errors import MemoryWriteBlocked
from holdfast.memory.notes import (
    AgentNotes,
    Applied,
    Capacity,
    MemoryBatch,
    MemoryOutcome,
    MemoryVerb,
    NotApplied,
    NoteChange,
    Target,
)
from holdfast.memory.notes_safety import reason_to_block
from holdfast.memory.notes_view import CONSOLIDATE_PERCENT, is_nearly_full, percent
from holdfast.memory.visibility import Audience, ShownEntry, ShownNotes, is_group
from holdfast.turns.tool import ToolContext

NAME = "memory"
Apply: TypeAlias = Callable[[MemoryBatch], Awaitable[MemoryOutcome]]
Look: TypeAlias = Callable[[Audience], Awaitable[ShownNotes]]
Answer: TypeAlias = dict[str, object]
MemoryTool: TypeAlias = Callable[..., Awaitable[Answer]]
DEFAULT = Capacity()
DONE = {MemoryVerb.ADD: "added", MemoryVerb.REPLACE: "replaced", MemoryVerb.REMOVE: "removed"}
CONSOLIDATE = (
    f"Memory is more than {CONSOLIDATE_PERCENT} % full. Consolidate before adding: merge related entries with replace,"
    " and remove what no longer matters, in one batch of operations."
)


class NoteEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """One operation of a batch, as the model writes it."""

    action: Literal["add", "replace", "remove"]
    content: str = ""
    old_text: str = ""
    version: int | None = None


def make_memory_tool(
    apply: Apply,
    look: Look,
    *,
    capacity: Capacity = DEFAULT,
    private_in_groups: bool = False,
    shares_all: bool = False,
) -> MemoryTool:
    """The function for `toolbox.add(make_memory_tool(...), idempotent=True)`."""

    async def memory(
        *,
        action: Literal["add", "replace", "remove", "read"] = "read",
        target: Literal["memory", "user"] = "memory",
        content: str = "",
        old_text: str = "",
        version: int | None = None,
        operations: list[NoteEdit] | None = None,
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
        audience = Audience(
            agent=context.agent,
            principal=context.principal,
            address=context.address,
            session=context.session,
            is_group=context.shared or is_group(context.address),
            private_in_groups=private_in_groups,
            shares_all=shares_all,
        )
        edits = operations or ([] if action == "read" else [NoteEdit(action, content, old_text, version)])
        if not edits:
            return _shown(await look(audience), about, capacity)
        batch = MemoryBatch(
            agent=context.agent,
            subject=audience.own,
            origin=origin_of(context),
            changes=tuple(_change(edit, about) for edit in edits),
            principal=context.principal,
            capacity=capacity,
            session=context.session,
            fence=context.fence,
        )
        old = _elsewhere(await look(audience), edits, about)
        if old is not None:
            return await _move(apply, look, audience, batch, old, capacity)
        outcome = await apply(batch)
        if isinstance(outcome, NotApplied):
            return _refusal(outcome, edits, await look(audience), about, capacity)
        return _answer(outcome, batch, (await look(audience)).own, capacity)

    return memory


def _elsewhere(shown: ShownNotes, edits: Sequence[NoteEdit], target: Target) -> ShownEntry | None:
    """The entry that a single operation names, if the person has it in another scope."""
    old = edits[0].old_text.strip()
    if len(edits) > 1 or edits[0].action == "add" or not old or any(old in one.text for one in shown.own.of(target)):
        return None
    found = [one for one in shown.others_of(target) if not one.is_shared and old in one.entry.text]
    return found[0] if len(found) == 1 else None


async def _move(  # noqa: PLR0917
    apply: Apply, look: Look, audience: Audience, batch: MemoryBatch, old: ShownEntry, room: Capacity
) -> Answer:
    """Add the new text first, then remove the old. An origin counts per scope, so a repeat does the missing part."""
    (change,) = batch.changes
    if change.verb is MemoryVerb.REPLACE:
        added = replace(batch, changes=(NoteChange(verb=MemoryVerb.ADD, target=change.target, text=change.text),))
        outcome = await apply(added)
        if isinstance(outcome, NotApplied):
            return _refusal(outcome, (NoteEdit("add"),), await look(audience), change.target, room)
    gone = NoteChange(verb=MemoryVerb.REMOVE, target=change.target, version=old.entry.seq)
    removal = replace(batch, subject=old.subject, changes=(gone,))
    outcome = await apply(removal)
    if isinstance(outcome, NotApplied):
        return _refusal(outcome, (NoteEdit("remove"),), await look(audience), change.target, room)
    answer = _answer(outcome, removal, (await look(audience)).own, room)
    return {**answer, "changed": [DONE[change.verb]]}


def origin_of(context: ToolContext) -> str:
    """Equal for every repetition of one call. The model names its calls, so a name may hold any character."""
    origin = f"tool:{context.session}:{context.turn}:{context.call}"
    if len(origin) <= PART_CHARS_MAX and origin.isprintable():
        return origin
    return f"tool:{sha256(origin.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _change(edit: NoteEdit, target: Target) -> NoteChange:
    return NoteChange(
        verb=MemoryVerb(edit.action), target=target, text=edit.content, old=edit.old_text, version=edit.version
    )


def _answer(outcome: Applied, batch: MemoryBatch, memory: AgentNotes, capacity: Capacity) -> Answer:
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
    outcome: NotApplied, edits: Sequence[NoteEdit], shown: ShownNotes, target: Target, capacity: Capacity
) -> Answer:
    many = len(edits) > 1
    which = f"operation {outcome.position + 1}: " if many else ""
    nothing = " None of the operations was made." if many else ""
    reason = outcome.reason
    edit = edits[outcome.position]
    if outcome.code == "no_match" and any(edit.old_text in one.entry.text for one in shown.others_of(target)):
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
    """Entries that can be changed have a version; the others are read-only."""
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


def _safe(text: str) -> str:
    reason = reason_to_block(text)
    return text if reason is None else f"[BLOCKED: {reason}]"


def _used(memory: AgentNotes, target: Target, capacity: Capacity) -> str:
    used, limit = memory.used_chars(target), capacity.of(target)
    return f"{used} of {limit} characters ({percent(used, limit)} %)"
