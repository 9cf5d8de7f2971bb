"""A chat platform that delivers at least once: it repeats a message until it is acknowledged, sometimes also
afterwards, in any order.

It sends to any live node, stops waiting after a while and tries another one. It records what a person could rely on:
when a message was first sent, when it was acknowledged, and with which outcome.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from holdfast.inbox.message import Accepted, AcceptOutcome, Arrival, Conflict, Duplicate, MailboxFull, TooMany
from holdfast.kernel.errors import HoldfastError, Remedy, StoreUnavailable
from holdfast.kernel.ids import DeliveryId, Principal, SessionId
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.runtime.runtime import Runtime
from holdfast.testing.armed import Armed
from holdfast.testing.faults import PlatformFailure
from holdfast.testing.node import NodeDown, SimNode
from holdfast.testing.workload import RECORDED_TURNS, Say, mark_of
from holdfast.turns.context import Context
from holdfast.turns.journal import AssistantSaid, UserSaid
from holdfast.turns.turn import Recorded, TurnRecord

WAIT_S = 2.0
AGAIN_S_MAX = 1.5
ATTEMPTS_MAX = 200
ENTRIES = 2  # of a recorded turn
UNDOES = 0.25

T = TypeVar("T")
Live: TypeAlias = Callable[[], Sequence[tuple[SimNode, Runtime]]]


async def answer_of(work: Coroutine[Any, Any, T]) -> T | HoldfastError:
    """The answer of a request, or the error that was the answer. It is lost if the client no longer waits for it.

    Raises an error that only a bug explains: it ends the history, whether or not anybody waits.
    """
    try:
        return await work
    except HoldfastError as error:
        if error.remedy is Remedy.REPORT:
            raise
        return error


@dataclass(slots=True)
class SentMessage:
    """The platform's record of one message."""

    say: Say
    first_at: float
    acked_at: float | None = None
    message: str = ""  # the runtime's id, from the acknowledgement
    refusals: int = 0
    recorded_refusal: bool = False
    attempts: int = 0
    taken_for_its_own: bool = False  # another text with its id was accepted; correct only after its words were blanked
    wrong: list[str] = field(default_factory=list)  # answers that a correct gateway never gives


@dataclass(slots=True)
class RecordedTurn:
    key: str
    session: str
    mark: str
    turn: int | None = None
    entries: tuple[int, ...] = ()  # their numbers
    undone: bool = False
    wrong: list[str] = field(default_factory=list)


class Platform:
    def __init__(self, seed: int | str, armed: Armed, live: Live) -> None:
        self._seed = seed
        self._armed = armed
        self._live = live
        self.sent: dict[str, SentMessage] = {}
        self.recorded: list[RecordedTurn] = []

    # --- messages

    async def deliver(self, say: Say) -> None:
        rng = random.Random(f"{self._seed}/platform/{say.n}")
        fault = self._armed.at_message(say.n)
        failure = fault.failure if fault else None
        late_s = fault.delay_ms / 1000 if fault and failure is PlatformFailure.LATE else 0.0
        await asyncio.sleep(say.at_ms / 1000 + late_s)
        sent = self.sent[say.event_id] = SentMessage(say, asyncio.get_running_loop().time())
        await self._until_acknowledged(sent, rng)
        if failure is PlatformFailure.ACK_LOST:
            await self._until_acknowledged(sent, rng)
        if fault and failure is PlatformFailure.REDELIVERED:
            await asyncio.sleep(fault.delay_ms / 1000)
            await self._until_acknowledged(sent, rng)
        if say.conflicts:
            await asyncio.sleep(rng.random() * 3)
            await self._conflict(sent, rng)

    async def _until_acknowledged(self, sent: SentMessage, rng: random.Random) -> None:
        for _ in range(ATTEMPTS_MAX):
            outcome = await self._try(sent.say, sent.say.text, rng)
            sent.attempts += 1
            if outcome is not None and self._is_final(sent, outcome):
                return
            await asyncio.sleep(rng.random() * AGAIN_S_MAX)
        sent.wrong.append(f"not acknowledged in {ATTEMPTS_MAX} attempts")

    def _is_final(self, sent: SentMessage, outcome: AcceptOutcome | HoldfastError) -> bool:
        match outcome:
            case Accepted(message=message) | Duplicate(message=message):
                if sent.message not in ("", message):
                    sent.wrong.append(f"acknowledged as {sent.message} and as {message}")
                if isinstance(outcome, Accepted) and sent.acked_at is not None:
                    sent.wrong.append(f"accepted again as {message} after its acknowledgement")
                sent.message = message
            case MailboxFull(recorded=True) | TooMany(recorded=True):
                sent.recorded_refusal = True
            case MailboxFull() | TooMany():
                sent.refusals += 1
                return False
            case Conflict():
                sent.wrong.append("its own text is called a conflict")
            case StoreUnavailable():
                return False
            case _:
                sent.wrong.append(f"refused with {outcome!r}")
        if sent.acked_at is None:
            sent.acked_at = asyncio.get_running_loop().time()
        return True

    async def _conflict(self, sent: SentMessage, rng: random.Random) -> None:
        """Send the same event id with another text: it is refused, and nothing changes."""
        for _ in range(ATTEMPTS_MAX):
            outcome = await self._try(sent.say, f"{sent.say.text} (edited)", rng)
            if outcome is not None and not isinstance(outcome, StoreUnavailable):
                if isinstance(outcome, Duplicate):
                    sent.taken_for_its_own = True
                elif not isinstance(outcome, Conflict):
                    sent.wrong.append(f"another text under its id gave {outcome!r}")
                return
            await asyncio.sleep(rng.random() * AGAIN_S_MAX)

    async def _try(self, say: Say, text: str, rng: random.Random) -> AcceptOutcome | HoldfastError | None:
        arrival = Arrival(
            address=say.chat.address,
            event_id=say.event_id,
            principal=Principal(say.sender),
            text=text,
            addressed=say.addressed,
            human=say.human,
            refuse_durably=say.chat.durably,
            rank=say.rank,
        )
        found = self._pick(rng)
        if found is None:
            return None
        node, runtime = found
        accepted = answer_of(runtime.gateway.accept(arrival))
        try:
            async with asyncio.timeout(WAIT_S):
                return await node.call(accepted, name=f"accept {say.event_id}")
        except (NodeDown, TimeoutError):
            return None

    def _pick(self, rng: random.Random) -> tuple[SimNode, Runtime] | None:
        live = self._live()
        return live[int(rng.random() * len(live))] if live else None

    async def deliver_again(self) -> None:
        """Deliver every acknowledged message again, as a platform that lost its records."""
        rng = random.Random(f"{self._seed}/again")
        for sent in list(self.sent.values()):
            if sent.acked_at is not None:
                await self._until_acknowledged(sent, rng)

    # --- a writer without a mailbox

    async def record(self, session: str, *, purpose: str, agent: str, policies: tuple[DeliveryPolicy, ...]) -> None:
        """Record turns one after the other; repeat each until it is confirmed, sometimes once more (D8).

        Sometimes the last ones are undone before the next is recorded, as Hermes does after its own undo.
        """
        rng, undoing = random.Random(f"{self._seed}/recorder"), random.Random(f"{self._seed}/undoing")
        for n in range(RECORDED_TURNS):
            await asyncio.sleep(rng.random() * 2)
            turn = RecordedTurn(key=f"k{n}", session=session, mark=mark_of(900 + n))
            self.recorded.append(turn)
            record = TurnRecord(
                session=SessionId(session),
                agent=agent,
                key=turn.key,
                entries=(UserSaid(text=turn.mark, principal="ghost"), AssistantSaid(text="noted")),
                principal=Principal(rng.choice(("ghost", "spook"))),
                place="attic",
                purpose=purpose,
                policies=policies,
            )
            for _ in range(1 if rng.random() < 0.7 else 2):
                await self._record_once(turn, record, rng)
            if undoing.random() < UNDOES:
                await self._undo(session, 1 if undoing.random() < 0.7 else 2, undoing)

    async def _undo(self, session: str, count: int, rng: random.Random) -> None:
        """Undo the last recorded turns; repeat that until it is confirmed, sometimes once more."""
        known = [turn for turn in self.recorded if turn.turn is not None and not turn.undone][-count:]
        numbers = [turn.turn for turn in known if turn.turn is not None]
        confirmations = 0
        for _ in range(ATTEMPTS_MAX if known else 0):
            found = self._pick(rng)
            if found is not None and await self._was_undone(*found, SessionId(session), numbers):
                confirmations += 1
                for turn in known:
                    turn.undone = True
                if confirmations == 2 or rng.random() < 0.7:
                    return
            await asyncio.sleep(rng.random() * AGAIN_S_MAX)

    async def _was_undone(self, node: SimNode, runtime: Runtime, session: SessionId, turns: Sequence[int]) -> bool:
        undone = runtime.undo_recorded(session, turns, by="recorder")
        return await self._was_heard(node, undone, name=f"undo {turns}")

    async def _record_once(self, turn: RecordedTurn, record: TurnRecord, rng: random.Random) -> None:
        for _ in range(ATTEMPTS_MAX):
            outcome = await self._try_record(turn, record, rng)
            if isinstance(outcome, Recorded):
                if turn.turn not in (None, outcome.turn):
                    turn.wrong.append(f"{turn.key} is turn {turn.turn} and turn {outcome.turn}")
                turn.turn = outcome.turn
                turn.entries = tuple(range(outcome.last_seq - ENTRIES + 1, outcome.last_seq + 1))
                return
            if outcome is not None and not isinstance(outcome, StoreUnavailable):
                turn.wrong.append(f"{turn.key} was refused with {outcome!r}")
                return
            await asyncio.sleep(rng.random() * AGAIN_S_MAX)

    async def _try_record(
        self, turn: RecordedTurn, record: TurnRecord, rng: random.Random
    ) -> Recorded | HoldfastError | None:
        found = self._pick(rng)
        if found is None:
            return None
        node, runtime = found

        async def write() -> tuple[Recorded, Context | None]:
            if self._seed % 2:
                return await runtime.record_turn(record), None
            return await runtime.record_and_read(record)

        try:
            async with asyncio.timeout(WAIT_S):
                answer = await node.call(answer_of(write()), name=f"record {record.key}")
        except (NodeDown, TimeoutError):
            return None
        if isinstance(answer, HoldfastError):
            return answer
        recorded, context = answer
        if context is not None:  # a call that nobody waits for any more may see what was undone since
            turn.wrong.extend(self._gaps(context, recorded))
        return recorded

    def _gaps(self, context: Context, recorded: Recorded) -> Iterator[str]:
        """What is wrong with the context of the session after a turn was recorded."""
        before = [seq for turn in self.recorded if not turn.undone for seq in turn.entries]
        said = {*before, *range(recorded.last_seq - ENTRIES + 1, recorded.last_seq + 1)}
        expected = sorted(seq for seq in said if seq > context.covers_through)
        found = [entry.seq for entry in context.entries]
        if found != expected:
            yield f"the context of {context.session} has the entries {found}; recorded were {expected}"

    # --- an operator

    async def replay(self, deliveries: Sequence[str]) -> None:
        """Replay each parked delivery; repeat the request until a node answers."""
        rng = random.Random(f"{self._seed}/operator")
        for delivery in deliveries:
            for _ in range(ATTEMPTS_MAX):
                found = self._pick(rng)
                if found is not None:
                    node, runtime = found
                    replayed = runtime.replay(DeliveryId(delivery))
                    if await self._was_heard(node, replayed, name=f"replay {delivery}"):
                        break
                await asyncio.sleep(rng.random() * AGAIN_S_MAX)

    async def _was_heard(self, node: SimNode, work: Coroutine[Any, Any, object], *, name: str) -> bool:
        """Whether the request was carried out. Raises an error that is not the store's, for which no request asks."""
        try:
            async with asyncio.timeout(WAIT_S):
                answer = await node.call(answer_of(work), name=name)
        except (NodeDown, TimeoutError):
            return False
        if isinstance(answer, HoldfastError) and not isinstance(answer, StoreUnavailable):
            raise answer
        return not isinstance(answer, StoreUnavailable)
