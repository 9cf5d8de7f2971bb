"""The model's `memory` tool: add, replace, remove, read, alone or as a batch that is applied whole or not at all.

The origin of a batch is the call itself, so a call that is repeated after a crash changes nothing: the tool is offered
as idempotent. It knows no store; it is given an `apply` and a `read`. What cannot be done is told with the entries as
they are, so that the model can do it right in its next call.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.ids import AgentName
from holdfast.core.key import PART_CHARS_MAX
from holdfast.core.memory import (
    Applied,
    Capacity,
    Change,
    Memory,
    MemoryBatch,
    MemoryOutcome,
    MemoryVerb,
    NotApplied,
    Target,
    subject_of,
)
from holdfast.core.memory_prompt import CONSOLIDATE_PERCENT, is_nearly_full, percent
from holdfast.core.memory_safety import reason_to_block
from holdfast.ports.tool import ToolContext

NAME = "memory"
Apply: TypeAlias = Callable[[MemoryBatch], Awaitable[MemoryOutcome]]
Read: TypeAlias = Callable[[AgentName, str], Awaitable[Memory]]
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
    apply: Apply, read: Read, *, capacity: Capacity | None = None, per_user: bool = False
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
        subject = subject_of(about, context.principal, per_user=per_user)
        wishes = operations or ([] if action == "read" else [MemoryWish(action, content, old_text, version)])
        if not wishes:
            return _shown(await read(context.agent, subject), about, room)
        batch = MemoryBatch(
            agent=context.agent,
            subject=subject,
            origin=origin_of(context),
            changes=tuple(_change(wish, about) for wish in wishes),
            principal=context.principal,
            capacity=room,
        )
        outcome = await apply(batch)
        if isinstance(outcome, NotApplied):
            return _refusal(outcome, about, room, many=len(wishes) > 1)
        return _answer(outcome, batch, await read(context.agent, subject), room)

    return memory


def origin_of(context: ToolContext) -> str:
    """The same for every repetition of one call. Models name their calls, so a name may be anything."""
    origin = f"tool:{context.session}:{context.turn}:{context.call}"
    if len(origin) <= PART_CHARS_MAX and origin.isprintable():
        return origin
    return f"tool:{sha256(origin.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _change(wish: MemoryWish, target: Target) -> Change:
    return Change(
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


def _refusal(outcome: NotApplied, target: Target, capacity: Capacity, *, many: bool) -> Answer:
    which = f"operation {outcome.position + 1}: " if many else ""
    nothing = " None of the operations was made." if many else ""
    shown = _shown(outcome.memory, target, capacity)
    answer: Answer = {**shown, "ok": False, "code": outcome.code, "error": f"{which}{outcome.reason}.{nothing}"}
    if outcome.code == "over_capacity":
        answer["advice"] = CONSOLIDATE
    return answer


def _shown(memory: Memory, target: Target, capacity: Capacity) -> Answer:
    entries = [{"version": entry.seq, "text": _safe(entry.text)} for entry in memory.of(target)]
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


def _used(memory: Memory, target: Target, capacity: Capacity) -> str:
    used, limit = memory.used_chars(target), capacity.of(target)
    return f"{used} of {limit} characters ({percent(used, limit)} %)"
