"""The answers of the process beside Hermes to its plugin: recall, conclusions and status.

Every answer is a JSON object with `ok`. A question that cannot be answered gets `ok: false` and a reason.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from typing import Any

from holdfast.hermes.filing import about_of, agent_of, place_of, principal_of, where_of
from holdfast.hermes.spool_reader import SpoolReader
from holdfast.kernel.errors import HoldfastError
from holdfast.memory.delivery import DeliveryState
from holdfast.memory.recall import RecallOutcome
from holdfast.runtime.runtime import Runtime

BUDGET_MS_MAX = 8_000  # Hermes waits for no recall longer
LOOK_EVERY_MS = 100
COUNTED_MAX = 1_000
ABOUT_THE_USER = "What is known about the user?"
UNSENT = (DeliveryState.SCHEDULED, DeliveryState.SENDING, DeliveryState.UNCERTAIN)
Question = Mapping[str, Any]


class HermesAnswers:
    def __init__(self, runtime: Runtime, reader: SpoolReader, providers: Mapping[str, object]) -> None:
        self._runtime = runtime
        self._reader = reader
        self._providers = [name for name in providers if name != "local"]
        self._answers: Mapping[str, Callable[[Question], Awaitable[dict[str, Any]]]] = {
            "ping": self._ping,
            "status": self._status,
            "settled": self._settled,
            "recall": self._recall,
            "conclusions": self._conclusions,
        }

    async def answer(self, question: Question) -> dict[str, Any]:
        answer = self._answers.get(str(question.get("op")))
        if answer is None:
            return {"ok": False, "error": f"there is no operation {question.get('op')!r}"}
        try:
            return {"ok": True, **(await answer(question))}
        except HoldfastError as error:
            return {"ok": False, "error": str(error), "code": error.code}

    async def _ping(self, _question: Question) -> dict[str, Any]:
        return {}

    async def _status(self, _question: Question) -> dict[str, Any]:
        waiting = await self._runtime.tasks.in_thread(self._reader.waiting)
        view: dict[str, Any] = {"waiting_in_spool": len(waiting), "damaged_lines": len(self._reader.damaged)}
        for name in self._providers:
            unsent = [len(await self._count(name, state)) for state in UNSENT]
            parked = len(await self._count(name, DeliveryState.PARKED))
            view[name] = f"{sum(unsent)} waiting, {parked} parked"
        return view

    async def _settled(self, question: Question) -> dict[str, Any]:
        """Wait until the spool is empty and every delivery has ended, within the budget; whether it is so."""
        ends_at = self._runtime.clock.now() + _budget_ms(question)
        with closing(self._runtime.events()) as feed:
            while await self._is_waiting():
                left_ms = ends_at - self._runtime.clock.now()
                if left_ms <= 0:
                    return {"settled": False}
                await feed.next_within(min(left_ms, LOOK_EVERY_MS))
        return {"settled": True}

    async def _is_waiting(self) -> bool:
        if await self._runtime.tasks.in_thread(self._reader.waiting):
            return True
        return any([await self._runtime.deliveries(state=state.value, limit=1) for state in UNSENT])

    async def _count(self, provider: str, state: DeliveryState) -> list[object]:
        return list(await self._runtime.deliveries(provider=provider, state=state.value, limit=COUNTED_MAX))

    async def _recall(self, question: Question) -> dict[str, Any]:
        found, text = await self._found(question, str(question.get("query") or ""))
        return {"text": text, "memories": [one.text for one in found.memories], "skipped": list(found.skipped)}

    async def _conclusions(self, question: Question) -> dict[str, Any]:
        """What was concluded about the person: notes and conclusions of the providers, not turns."""
        found, _ = await self._found(question, str(question.get("query") or "") or ABOUT_THE_USER)
        about = about_of(question)
        notes = await self._runtime.notes_at(agent=agent_of(about), address=place_of(about), sender=principal_of(about))
        noted = [entry.text for entry in (*notes.own.entries, *(one.entry for one in notes.others))]
        concluded = [one.text for one in found.memories if one.turn is None]
        return {"conclusions": list(dict.fromkeys([*noted, *concluded])), "skipped": list(found.skipped)}

    async def _found(self, question: Question, text: str) -> tuple[RecallOutcome, str]:
        about = about_of(question)
        return await self._runtime.recall_at(
            text,
            agent=agent_of(about),
            address=place_of(about),
            sender=principal_of(about),
            where=where_of(question),
            budget_ms=_budget_ms(question),
        )


def _budget_ms(question: Question) -> int:
    return max(1, min(int(question.get("budget_ms") or 1_500), BUDGET_MS_MAX))
