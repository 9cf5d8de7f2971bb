"""A provider of Hermes as a provider of Holdfast: turns wait in the journal until the hosted provider has taken them.

Rule 1: the ledger has a line before a parcel is passed on and a line after it was taken. A parcel with both has landed,
        one with neither has not, one with the first alone may have: the hosted provider cannot be asked.
Rule 2: taken means that `sync_turn` and `shutdown` returned and the provider logged no warning. What its service did is
        known to the provider alone.
Rule 3: parcels are passed on one at a time and in order, in a process of Hermes' own interpreter.
Rule 4: recall is off unless the operator turns it on: not every provider keeps people apart.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.inbox.address import parse
from holdfast.kernel.errors import InvalidAddress, ProviderFailed
from holdfast.kernel.files import make_private_folder, write_synced
from holdfast.kernel.ports import Tasks
from holdfast.memory.delivery import (
    Delivered,
    Landing,
    NamingInputs,
    Op,
    Outcome,
    Parcel,
    Refused,
    SaidTurn,
    Uncertain,
    Unreachable,
)
from holdfast.memory.provider import Capabilities, ProviderSetup
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.providers.hermes.hosted_process import HostedProcess
from holdfast.turns.journal import storable

if TYPE_CHECKING:
    from holdfast.providers.hermes.factory import HostedSettings

DELIVERED_MEANS = "the hosted plugin of Hermes returned without a warning"
BEGUN, TAKEN = "begun", "taken"
WAITS = Unreachable("it waits for an earlier delivery that failed")


class DeliveryLedger:
    """An append-only file of what was passed on, one line for each step of a parcel."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "deliveries"
        self._steps: dict[str, str] | None = None

    def step_of(self, parcel: Parcel) -> str:
        return self._read().get(parcel.id, "")

    def note(self, parcel: Parcel, step: str) -> None:
        self._read()[parcel.id] = step
        make_private_folder(self._file.parent)
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        write_synced(handle, f"{step} {parcel.id}\n".encode())

    def _read(self) -> dict[str, str]:
        if self._steps is None:
            lines = self._file.read_text(encoding="utf-8").split("\n") if self._file.exists() else []
            pairs = [line.split(" ", 1) for line in lines[:-1] if " " in line]  # the last line may be torn
            self._steps = {parcel: step for step, parcel in pairs}
        return self._steps


class HostedProvider:
    def __init__(self, setup: ProviderSetup, settings: "HostedSettings", python: Path, home: Path) -> None:
        self._name = setup.name
        self._tasks: Tasks = setup.tasks
        self._timeout_s = settings.timeout_s
        self._ledger = DeliveryLedger(setup.folder)
        self._process = HostedProcess(python, settings.provider, home, setup.environment)
        self._capabilities = Capabilities(
            renderer="hermes/1",
            recalls=settings.recall,
            prefetches=settings.recall,
            erases=False,
            calls_max=1,
            quiet_ms=0,
            delivered_means=DELIVERED_MEANS,
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        outcomes: list[Outcome] = []
        failed: set[str] = set()
        for parcel in parcels:
            outcome = WAITS if parcel.place in failed else await self._deliver(parcel)
            outcomes.append(outcome)
            if not isinstance(outcome, Delivered):
                failed.add(parcel.place)
        return outcomes

    async def landed(self, parcel: Parcel) -> Landing:
        try:
            step = await self._tasks.in_thread(lambda: self._ledger.step_of(parcel))
        except OSError:
            return Landing.POSSIBLE
        return {TAKEN: Landing.LANDED, BEGUN: Landing.POSSIBLE}.get(step, Landing.ABSENT)

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        question = {"session": query.key.session, "about": about(query.naming), "query": storable(query.text)}
        answer = await self._process.ask(question, self._timeout_s)
        if "error" in answer:
            raise ProviderFailed(str(answer["error"]))
        text = str(answer.get("result") or "")
        return [Recollection(provider=self._name, text=text)] if text else []

    async def healthy(self) -> str | None:
        return None

    async def close(self) -> None:
        await self._process.close()

    async def _deliver(self, parcel: Parcel) -> Outcome:
        if parcel.op not in (Op.RETAIN, Op.REMEMBER):
            return Refused(f"a provider of Hermes has no {parcel.op.value}")
        try:
            if await self._tasks.in_thread(lambda: self._ledger.step_of(parcel)) == TAKEN:
                return Delivered("it was taken before")
            await self._tasks.in_thread(lambda: self._ledger.note(parcel, BEGUN))
            answer = await self._process.ask(question_of(parcel), self._timeout_s)
            outcome = outcome_of(answer)
            if isinstance(outcome, Delivered):
                await self._tasks.in_thread(lambda: self._ledger.note(parcel, TAKEN))
            elif isinstance(outcome, Unreachable):
                await self._tasks.in_thread(lambda: self._ledger.note(parcel, "absent"))
        except ProviderFailed as error:
            return Uncertain(str(error))
        except OSError as error:
            return Uncertain(f"the ledger cannot be written: {error.strerror}")
        return outcome


def outcome_of(answer: dict[str, Any]) -> Outcome:
    if "error" in answer:
        why = str(answer["error"])
        return Uncertain(why, suspect=True) if answer.get("begun") else Unreachable(why)
    warnings = answer.get("warnings") or []
    return Uncertain(f"the provider warned: {warnings[0]}", suspect=True) if warnings else Delivered("taken")


def question_of(parcel: Parcel) -> dict[str, Any]:
    question: dict[str, Any] = {"session": parcel.session, "about": about(parcel.naming)}
    if parcel.note is not None:
        note = parcel.note
        words = {"text": storable(note.text), "old": storable(note.old_text)}
        return {**question, "note": {"op": note.op, "target": note.target, **words}}
    return {**question, "turns": [pair_of(turn) for turn in parcel.turns]}


def pair_of(turn: SaidTurn) -> tuple[str, str]:
    """The words of the person and of the agent, as Hermes passes a turn on."""
    said = {role: [storable(line.text) for line in turn.lines if line.role == role] for role in ("user", "assistant")}
    return "\n".join(said["user"]), "\n".join(said["assistant"])


def about(naming: NamingInputs) -> dict[str, str]:
    """The keywords of `initialize` that a gateway of Hermes passes."""
    known = {"agent_identity": naming.agent, "user_id": naming.principal, "gateway_session_key": naming.address}
    try:
        address = parse(naming.address)
    except InvalidAddress:
        return {**known, "platform": "holdfast"}
    return {**known, "platform": address.channel, "chat_id": address.chat, "chat_type": address.type}
