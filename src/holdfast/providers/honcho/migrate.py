"""Migrating memory files that are older than the Honcho setup, each at most once (R19).

MEMORY.md and USER.md go to the person's peer and SOUL.md to the agent's, as messages in a session of their own.

Rule 1: never under the per-session strategy: every session would get the owner's files.
Rule 2: a file is identified by workspace, peer and content. A file that the ledger has, or that Honcho lists, is not
        sent, so a crash between sending and marking sends no second copy.
Rule 3: the ledger marks the start of a file's migration first. A migration that finds a start without an end waits
        until an earlier request must have taken effect, and asks Honcho before it sends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec
from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]

from holdfast.kernel.errors import StoreCorrupt
from holdfast.kernel.ids import Instant
from holdfast.memory.delivery import Delivered, Outcome, Refused, Uncertain
from holdfast.memory.files.disk import Disk
from holdfast.memory.provider import ProviderSetup
from holdfast.providers.honcho.client import HonchoClient
from holdfast.providers.honcho.faults import HonchoCallFailed
from holdfast.providers.honcho.messages import encode_text, make_message, split_text, turn_id_of
from holdfast.providers.honcho.naming import HonchoNames, Strategy
from holdfast.providers.honcho.retain import BATCH_MAX

PERSON_FILES = ("MEMORY.md", "USER.md")
AGENT_FILES = ("SOUL.md",)
LEDGER_FILE = "migrated.json"


class MigrationLedger:
    """The keys of migrated files, in a file of the provider's own folder. A key that is marked stays marked.

    A crash leaves the old or the new file whole. One process at a time writes it: the owner of the data folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LEDGER_FILE

    def seen(self, key: str) -> bool:
        return key in self._keys()

    def mark(self, key: str) -> None:
        """Durable on return. Raises `FileFault`."""
        keys = self._keys()
        if key in keys:
            return
        Disk(self._path.parent).write(self._path, msgspec.json.encode([*keys, key]))

    def _keys(self) -> list[str]:
        """A ledger that cannot be read is not empty: an empty one would send every file a second time."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[str])
        except FileNotFoundError:
            return []
        except msgspec.DecodeError as error:
            what = f"{self._path} is damaged; restore it, or delete it to migrate once more"
            raise StoreCorrupt(what, file=str(self._path)) from error


@dataclass(frozen=True, slots=True)
class FileMigration:
    """The migration of one agent's files about one subject."""

    client: HonchoClient
    names: HonchoNames
    setup: ProviderSetup
    quiet_ms: int
    subject: str

    async def run(self, files: Mapping[str, str]) -> dict[str, Outcome]:
        """One outcome per file. `files` maps names to contents; a blank file has nothing to migrate."""
        if self.names.strategy is Strategy.PER_SESSION:
            return dict.fromkeys(files, Refused("memory files are not migrated under the per-session strategy"))
        now = self.setup.clock.now()
        return {name: await self._migrate(name, text, now) for name, text in files.items()}

    async def _migrate(self, name: str, text: str, now: Instant) -> Outcome:
        if name not in (*PERSON_FILES, *AGENT_FILES):
            return Refused(f"{name} is not a memory file; they are {', '.join((*PERSON_FILES, *AGENT_FILES))}")
        if not text.strip():
            return Delivered("there was nothing to store")
        messages = self._messages(name, text, now)
        key = str(messages[0].metadata["delivery"])
        if await self._seen(key):
            return Delivered("migrated before")
        if len(messages) > BATCH_MAX:
            return Refused(f"{name} is too large: {len(text)} characters")
        try:
            await self._send_once(key, messages)
        except HonchoCallFailed as failure:
            return failure.outcome
        await self._mark(key)
        return Delivered(f"{len(messages)} messages")

    async def _send_once(self, key: str, messages: list[MessageCreateParams]) -> None:
        """One request sends all messages of a file, so Honcho stores all of them or none."""
        place = self.names.files_place(self.setup.agent, self.subject)
        ids = [turn_id_of(message) for message in messages]
        begun = f"{key}:begun"
        if await self._seen(begun):
            await self.setup.tasks.sleep(self.quiet_ms)
        if await self.client.find(place, ids):
            return
        await self._mark(begun)
        await self.client.add(place, messages)
        if len(await self.client.find(place, ids)) != len(ids):
            raise HonchoCallFailed(Uncertain("Honcho acknowledged the file and does not list it"))

    def _messages(self, name: str, text: str, now: Instant) -> list[MessageCreateParams]:
        is_agents = name in AGENT_FILES
        agent = self.setup.agent
        peer = self.names.agent_peer(agent) if is_agents else self.names.person_peer(agent, self.subject)
        content = encode_text(text)
        key = sha256("\0".join((self.names.workspace, peer, name, content)).encode()).hexdigest()
        shared = {"delivery": key, "agent": agent, "file": name, "user": self.subject}
        parts = enumerate(split_text(content))
        return [make_message(f"{key}.{index}", peer, part, now, **shared) for index, part in parts]

    async def _seen(self, key: str) -> bool:
        return await self.setup.tasks.in_thread(lambda: MigrationLedger(self.setup.folder).seen(key))

    async def _mark(self, key: str) -> None:
        await self.setup.tasks.in_thread(lambda: MigrationLedger(self.setup.folder).mark(key))
