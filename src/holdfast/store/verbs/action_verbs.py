"""The part of the store that keeps the audit trail, and the way in which verbs of others learn who acts."""

from collections.abc import Callable, Sequence

from holdfast.audit import action_sql
from holdfast.audit.action import Act, Action, ActionFilter, By
from holdfast.audit.actor import acting
from holdfast.store.database import Database
from holdfast.store.protocols.action_store import EVERY_ACTION
from holdfast.store.script import R, Script


class ActionVerbs:
    """Implements the ports `ActionStore` and `ActionReader`."""

    _db: Database

    async def _act(self, verb: str, script: Callable[[By], Script[R]], *, name: str = "") -> R:
        """Run a verb that writes to the trail: in the name of whoever calls it, also when the engine repeats it."""
        by = acting()
        return await self._db.write(verb, lambda: script(by), name=name)

    async def record_action(self, act: Act, subject: str = "", *, agent: str = "") -> None:
        detail = {"agent": agent} if agent else {}
        await self._act("record_action", lambda by: action_sql.record(act, by, subject, **detail))

    async def refuse_action(self, act: Act, subject: str, code: str) -> None:
        await self._act("refuse_action", lambda by: action_sql.refuse(act, by, subject, code))

    async def note_settings(self, digest: str) -> bool:
        return await self._act("note_settings", lambda by: action_sql.note_settings(by, digest))

    async def actions(
        self, wanted: ActionFilter = EVERY_ACTION, *, after: int = 0, limit: int = 100, oldest_first: bool = False
    ) -> Sequence[Action]:
        return await self._db.read(
            "actions", lambda: action_sql.list_actions(wanted, after, limit, oldest_first=oldest_first)
        )

    async def last_action(self) -> tuple[int, bytes]:
        return await self._db.read("last_action", action_sql.read_last_action)
