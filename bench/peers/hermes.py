"""Hermes: its SessionDB, called as its gateway does."""

from collections.abc import Sequence

from hermes_state import SessionDB

from bench import texts
from bench.work import Conversations


class Sessions(Conversations):
    """One call per message, then the whole conversation: the gateway loads it like this before a turn."""

    async def open(self) -> None:
        self._db = SessionDB(self.folder / "state.db")
        self._known: set[str] = set()

    async def prepare(self, names: Sequence[str], messages: int) -> None:
        said = [{"role": "user", "content": texts.USER}, {"role": "assistant", "content": texts.ASSISTANT}]
        for name in names:
            self._db.create_session(name, "bench")
            self._db.replace_messages(name, said * (messages // 2))

    async def meet(self, name: str) -> None:
        if name not in self._known and not self.task.load.history:
            self._db.create_session(name, "bench")
            self._known.add(name)

    async def turn(self, name: str, n: int) -> None:
        del n
        await self.meet(name)
        self._db.append_message(name, "user", texts.USER)
        self._db.append_message(name, "assistant", texts.ASSISTANT)
        assert self._db.get_messages_as_conversation(name)[-texts.TAIL :]

    async def close(self) -> None:
        self._db.close()
