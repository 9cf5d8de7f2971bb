"""Memory files that were there before Honcho was, brought to it at most once (R19).

MEMORY.md and USER.md go to the person's peer, SOUL.md to the agent's, as messages in a session of their own.

Rule 1: never under the per-session strategy: every session would get the owner's files.
Rule 2: a file is known by workspace, peer and content. What the ledger has is not sent; what Honcho lists is not sent
        either, so a crash between sending and marking sends no second copy.
Rule 3: that it is about to be sent is marked first. Whoever finds that mark without its end waits until a request that
        was under way must have taken effect, and looks again before sending.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.tasks import Tasks
from holdfast.memory.delivery import Delivered, Outcome, Refused, Uncertain
from holdfast.providers.honcho.client import Calls
from holdfast.providers.honcho.faults import CallFailed
from holdfast.providers.honcho.ledger import Ledger
from holdfast.providers.honcho.naming import HonchoNames, Strategy
from holdfast.providers.honcho.rendering import Said
from holdfast.providers.honcho.retain import BATCH_MAX
from holdfast.providers.honcho.words import parts, said

OF_THE_PERSON = ("MEMORY.md", "USER.md")
OF_THE_AGENT = ("SOUL.md",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """Whose files they are, and where to."""

    calls: Calls
    names: HonchoNames
    ledger: Ledger
    tasks: Tasks
    quiet_ms: int
    agent: AgentName
    subject: str = ""

    async def seen(self, key: str) -> bool:
        return await self.tasks.in_thread(lambda: self.ledger.seen(key))

    async def mark(self, key: str) -> None:
        await self.tasks.in_thread(lambda: self.ledger.mark(key))


async def migrate_memory_files(mover: Mover, files: Mapping[str, str], *, now: Instant) -> dict[str, Outcome]:
    """What became of each file. `files` are names and contents; blank ones have nothing to move."""
    if mover.names.strategy is Strategy.PER_SESSION:
        return dict.fromkeys(files, Refused("memory files are not migrated under the per-session strategy"))
    return {name: await _migrate(mover, name, text, now) for name, text in files.items()}


async def _migrate(mover: Mover, name: str, text: str, now: Instant) -> Outcome:
    if name not in (*OF_THE_PERSON, *OF_THE_AGENT):
        return Refused(f"{name} is no memory file; there are {', '.join((*OF_THE_PERSON, *OF_THE_AGENT))}")
    if not text.strip():
        return Delivered("nothing to keep")
    messages = _messages(mover, name, text, now)
    key = str(messages[0].metadata["delivery"])
    if await mover.seen(key):
        return Delivered("migrated before")
    if len(messages) > BATCH_MAX:
        return Refused(f"{name} is too large: {len(text)} characters")
    try:
        await _send_once(mover, key, messages)
    except CallFailed as failure:
        return failure.outcome
    await mover.mark(key)
    return Delivered(f"{len(messages)} messages")


async def _send_once(mover: Mover, key: str, messages: list[Said]) -> None:
    """All its messages go in one request, so they are there or they are not."""
    place = mover.names.files_place(mover.agent, mover.subject)
    ids = [message.turn_id for message in messages]
    begun = f"{key}:begun"
    if await mover.seen(begun):
        await mover.tasks.sleep(mover.quiet_ms)
    if await mover.calls.find(place, ids):
        return
    await mover.mark(begun)
    await mover.calls.add(place, messages)
    if len(await mover.calls.find(place, ids)) != len(ids):
        raise CallFailed(Uncertain("Honcho acknowledged the file and does not list it"))


def _messages(mover: Mover, name: str, text: str, now: Instant) -> list[Said]:
    by_agent = name in OF_THE_AGENT
    peer = mover.names.agent_peer(mover.agent) if by_agent else mover.names.person_peer(mover.agent, mover.subject)
    content = said(text)
    key = sha256("\0".join((mover.names.workspace, peer, name, content)).encode()).hexdigest()
    shared = {"delivery": key, "agent": mover.agent, "file": name, "user": said(mover.subject)}
    return [
        Said(turn_id=f"{key}.{index}", peer=peer, text=part, at=now, metadata={**shared, "turn_id": f"{key}.{index}"})
        for index, part in enumerate(parts(content))
    ]
