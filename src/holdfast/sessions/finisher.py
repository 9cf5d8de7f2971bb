"""The finisher: ends expired epochs, and extracts notes from ended ones.

Rule 1: every step is durable before the next one; a takeover continues from the stored step.
Rule 2: extraction is a temporary run: it has no session, no cursor and no provider session, and writes the memory of
        the agent whose conversation it read (R16).
Rule 3: the finisher schedules no delivery. The transaction that ends an epoch makes its tail due (D18).
Rule 4: a failed attempt is postponed; when attempts run out, the epoch visibly closes as failed, and no data is lost.

The finisher works on a limited number of epochs at a time.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from holdfast.kernel import log
from holdfast.kernel.dates import Offset
from holdfast.kernel.errors import AgentNotFound, ClaimLost, HoldfastError, ModelFailed
from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.loop import IDLE_MS, Batch, ClaimLoop, log_failure
from holdfast.kernel.notifier import Topic
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.spans import FINISH, span
from holdfast.kernel.time_zones import UTC, zone_offset
from holdfast.memory.notes_sql import read_memory
from holdfast.sessions import extraction
from holdfast.sessions.extraction import ExtractionResult, Unusable
from holdfast.sessions.extraction_sql import apply_finalisation, read_excerpt
from holdfast.sessions.finalisation import (
    Cutoffs,
    Ending,
    Finalisation,
    FinishEvent,
    FinishPolicy,
    FinishStep,
    cutoffs,
    put_off,
)
from holdfast.sessions.finalisation_sql import (
    begin_finalisation,
    claim_finalisation,
    find_expired_sessions,
    list_open_agents,
    record_finalisation,
)
from holdfast.sessions.session import Purpose
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.model import ModelRequest, ModelTask
from holdfast.turns.model_call import hear

EPOCHS = "epochs"
GIVE_BACK = RetryPolicy(delay_ms_base=250, delay_ms_max=5_000)
ENDINGS_AT_ONCE_MAX = 100  # per agent and search


class Finisher(ClaimLoop[str, Finalisation]):
    name = "finisher"
    topic = Topic.FINISH
    grace_ms = 0  # every step is durable, and an extraction may take long

    def __init__(
        self,
        ports: Ports,
        *,
        agents: Agents,
        member: Member,
        policy: FinishPolicy | None = None,
        offset_of: Callable[[str], Offset] = zone_offset,
        at_once: int = 1,
    ) -> None:
        super().__init__(ports.tasks, ports.entropy, ports.notifier, ports.new_id)
        self._ports = ports
        self._agents = agents
        self._member = member
        self._policy = policy or FinishPolicy()
        self._offset_of = offset_of
        self._at_once = at_once
        self._look_at = Instant(0)  # in memory only: after a restart, the finisher searches at once

    async def step(self) -> bool:
        taken = await super().step()
        if taken or self._ports.clock.now() < self._look_at:
            return taken
        ended = await self._end_expired()
        if ended:  # more may have expired
            self.due[EPOCHS] = None
        else:
            self._look_at = Instant(self._ports.clock.now() + self._policy.look_every_ms)
        return ended

    def wait_ms(self) -> float:
        return min(IDLE_MS, max(0, self._look_at - self._ports.clock.now()))

    # --- claims

    async def look(self) -> Iterable[str]:
        return (EPOCHS,)

    def room(self, group: str) -> int:
        del group
        return self._at_once - len(self.running)

    async def claim(self, group: str, name: str, *, repeated: bool) -> Batch[Finalisation]:
        del group, repeated
        held = await self._ports.db.write(claim_finalisation(self._member.node, name=name))
        return Batch([] if held is None else [held], more=held is not None)

    async def give_back(self, group: str, claim: Finalisation, error: Exception) -> None:
        """Does nothing: `serve` gives back the newest state of the claim."""

    # --- expiry

    async def _end_expired(self) -> bool:
        """End the epochs of expired sessions; True if there were any."""
        now, agents = await self._ports.db.read(list_open_agents())
        ended = False
        for agent, idle_since in agents.items():
            limits = self._cutoffs(agent, now)
            if limits.latest is None or idle_since > limits.latest:
                continue
            for found in await self._ports.db.write(
                find_expired_sessions(agent, before=limits.latest, limit=ENDINGS_AT_ONCE_MAX)
            ):
                cause = limits.cause(found.active_at)
                ended |= await self._end(
                    Ending(
                        session=found.session,
                        epoch=found.epoch,
                        cause=cause,
                        active_before=limits.latest,
                        policies=self._agents.policy(agent).deliveries,
                    )
                )
        return ended

    def _cutoffs(self, agent: AgentName, now: Instant) -> Cutoffs:
        """The expiry instants of an agent. Sessions of an agent that is no longer configured do not expire."""
        try:
            policy = self._agents.policy(agent).expiry
        except AgentNotFound:
            return Cutoffs()
        return cutoffs(policy, now, self._offset_of(policy.time_zone if policy.daily_at else UTC))

    async def _end(self, ending: Ending) -> bool:
        begun = await self._ports.db.write(begin_finalisation(ending))
        if not isinstance(begun, Finalisation):
            return False
        self._ports.notifier.wake(Topic.DELIVERY)
        log.info("finish.begun", session=ending.session, epoch=ending.epoch, cause=ending.cause)
        return True

    # --- one epoch, step by step

    async def serve(self, group: str, claim: Finalisation) -> None:
        del group
        with (
            log.pinned(session=claim.session, epoch=claim.epoch, fence=claim.fence),
            span(
                FINISH,
                gen_ai_agent_name=claim.agent,
                gen_ai_conversation_id=claim.session,
                holdfast_session_epoch=claim.epoch,
            ),
        ):
            held = claim
            try:
                while held.owner is not None and not held.ended:
                    held = await self._next(held)
            except ClaimLost as lost:
                log.info("finish.lost", why=str(lost))
            except Exception as error:  # noqa: BLE001
                log_failure(self.name, error)
                held = await self._postpone(held, error)
            if held.ended:
                self._tell(held)

    async def _postpone(self, held: Finalisation, error: Exception) -> Finalisation:
        """Postpone a finalisation whose run raised, so that others are processed. Retries until the store answers."""
        code, attempt = error.code if isinstance(error, HoldfastError) else type(error).__name__, 0
        while held.owner is not None and not held.ended:
            try:
                held = await self._put_off(held, code)
            except ClaimLost as lost:
                log.info("finish.lost", why=str(lost))
                break
            except HoldfastError as failed:
                attempt += 1
                log_failure(self.name, failed)
                await self._ports.tasks.sleep(GIVE_BACK.delay_ms(attempt, self._ports.entropy.fraction()))
        return held

    async def _next(self, held: Finalisation) -> Finalisation:
        handlers: Mapping[FinishStep, Callable[[Finalisation], Awaitable[Finalisation]]] = {
            FinishStep.BEGUN: self._ask,
            FinishStep.ASKED: self._apply,
            FinishStep.APPLIED: self._close,
        }
        if held.attempts > self._policy.attempts_max and held.step is not FinishStep.APPLIED:
            died = "the process died at every attempt"
            return await self._put_off(held, held.reason or died, logged="no attempt is left")
        return await handlers[held.step](held)

    async def _ask(self, held: Finalisation) -> Finalisation:
        request = await self._request(held)
        if request is None:
            return await self._ports.db.write(record_finalisation(held, FinishEvent.EMPTY))
        agent = self._agents.get(held.agent)
        try:
            answer = await hear(agent.summariser, request, agent.policy.thresholds.summariser_wait_ms)
        except ModelFailed as error:
            task, why = request.task.value, str(error)
            log.error("model.failed", failure=error.__cause__, task=task, why=why, **error.vendor.fields)
            return await self._put_off(held, error.reason, logged=why)
        checked = extraction.parse_answer(answer.text)
        if isinstance(checked, Unusable):
            log.error("model.failed", task=request.task.value, why=checked.why)
            return await self._put_off(held, checked.why)
        return await self._ports.db.write(
            record_finalisation(held, FinishEvent.ANSWERED, answer=answer.text.encode(), model=agent.summariser.name)
        )

    async def _request(self, held: Finalisation) -> ModelRequest | None:
        """The request for the model; None if there is nothing to extract."""
        if held.purpose is not Purpose.CONVERSATION or held.from_seq > held.through_seq:
            return None
        excerpt = await self._ports.db.read(read_excerpt(held))
        if excerpt.is_empty:
            return None
        policy = self._agents.policy(held.agent)
        memory = await self._ports.db.read(read_memory(held.agent, excerpt.scope))
        window = policy.thresholds.context_tokens
        messages = extraction.extraction_request(
            memory, policy.notes, excerpt, said_at=held.said_at, context_tokens=window
        )
        return ModelRequest(task=ModelTask.EXTRACT, messages=messages)

    async def _apply(self, held: Finalisation) -> Finalisation:
        answer = extraction.parse_answer(held.answer.decode())
        if isinstance(answer, Unusable):  # an older release accepted it; this one does not
            return await self._put_off(held, answer.why)
        policy = self._agents.policy(held.agent)
        after = await self._ports.db.write(apply_finalisation(held, answer.changes, policy.notes, policy.deliveries))
        self._ports.notifier.wake(Topic.DELIVERY)
        return after

    async def _close(self, held: Finalisation) -> Finalisation:
        return await self._ports.db.write(record_finalisation(held, FinishEvent.CLOSED))

    async def _put_off(self, held: Finalisation, why: str, *, logged: str = "") -> Finalisation:
        """`logged` replaces a reason that contains a vendor's words in the log."""
        event = put_off(held, self._policy)
        wait_ms = self._policy.retry.delay_ms(held.attempts, self._ports.entropy.fraction())
        after = await self._ports.db.write(record_finalisation(held, event, reason=why, retry_in_ms=wait_ms))
        self._ports.notifier.wake_in(Topic.FINISH, wait_ms)
        log.warning(
            "finish.postponed", step=after.step.value, attempt=held.attempts, why=logged or why, retry_in_ms=wait_ms
        )
        return after

    def _tell(self, held: Finalisation) -> None:
        result = extraction.decode_result(held.result) if held.result else ExtractionResult()
        log.info(
            "finish.done",
            outcome=held.outcome,
            cause=held.cause,
            attempts=held.attempts,
            applied=len(result.applied),
            unfit=len(result.unfit),
            duration_ms=(held.ended_at or held.started_at) - held.started_at,
        )
