"""The recaller: queries every provider that supports recall, within the turn's budget, and drops late answers.

Rule 1: a result is stored under the key of its query and used under the same key, at most once (R10, R11).
Rule 2: the budget is per turn, not per provider. A provider without an answer by then is skipped and reported.
Rule 3: while the circuit breaker of a provider is open, turns skip the provider and report that. From time to time one
        turn's query is also sent to it as a probe, for which the turn does not wait; an answer closes the circuit.
Rule 4: a prefetched result counts only if the journal's head is unchanged: the head is part of the key. It does not
        count if the principal's links changed since, or if the chat became a group.
Rule 5: linked principals are read again after every change of links. A turn's claim reads the store's count of these
        changes (`Context.withdrawals`), which is part of the cache key.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.inbox.identity_sql import linked_principals
from holdfast.inbox.mailbox import Claim
from holdfast.kernel import log
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import AgentName, Principal
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.notifier import is_set_within
from holdfast.kernel.ports import Clock, Entropy, Task, Tasks
from holdfast.kernel.spans import RECALL, span
from holdfast.memory import recall
from holdfast.memory.lane import LaneKey
from holdfast.memory.provider import Provider, Providers
from holdfast.memory.recall import RecallKey, RecallOutcome, RecallPolicy, RecallQuery, Recollection
from holdfast.memory.visibility import is_group
from holdfast.store.ports import Database
from holdfast.turns.context import Context
from holdfast.turns.journal import Entry, Recalled, UserSaid, storable
from holdfast.turns.turn import Turn

PREFETCHED_MAX = 1_024  # keys; the oldest are evicted first
KIN_MAX = 10_000  # principals whose links are cached
PREFETCH_WAIT_MS = 30_000


@dataclass(slots=True)
class _Asked:
    """A query to several providers at once, with the answers so far."""

    group: bool
    as_of: int | None  # the count of link changes that the turn's claim read; None to read the links
    answers: dict[ProviderName, Sequence[Recollection]] = field(default_factory=dict)
    failures: dict[ProviderName, str] = field(default_factory=dict)
    waiting: set[ProviderName] = field(default_factory=set)
    kin: tuple[Principal, ...] | None = None  # the linked principals at the time of the query
    tasks: list[Task] = field(default_factory=list)
    took_ms: dict[ProviderName, int] = field(default_factory=dict)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def is_like(self, other: "_Asked") -> bool:
        """Whether both queries had the same readers."""
        return (self.kin, self.group) == (other.kin, other.group)

    def drop(self) -> None:
        for task in self.tasks:
            task.cancel()


class Recaller:
    def __init__(
        self, providers: Providers, tasks: Tasks, clock: Clock, entropy: Entropy, db: Database | None = None
    ) -> None:
        self._providers = providers
        self._circuits = providers.recall_circuits
        self._tasks = tasks
        self._clock = clock
        self._entropy = entropy
        self._db = db
        self._prefetched: OrderedDict[RecallKey, _Asked] = OrderedDict()
        self._probes: dict[LaneKey, Task] = {}
        # Each agent has a count of link changes of its own.
        self._kin: OrderedDict[tuple[AgentName, Principal], tuple[int, tuple[Principal, ...]]] = OrderedDict()

    def is_able(self, agent: AgentName, policy: RecallPolicy) -> bool:
        """Whether an agent has a provider to ask."""
        return policy.enabled and bool(self._able(agent))

    async def recall(self, query: RecallQuery, policy: RecallPolicy, *, as_of: int | None = None) -> RecallOutcome:
        """The memories of all providers that answer in time. Does not raise exceptions of providers.

        `as_of` is the count of link changes (`Context.withdrawals`): links that were read at this count are not read
        again.
        """
        able = self._able(query.agent)
        if not policy.enabled or not able:
            return RecallOutcome(key=query.key)
        ahead = self._prefetched.pop(query.key, None)
        circuits = {name: self._circuits[LaneKey(query.agent, name)] for name in able}
        left_out = {
            name: f"{name} was not asked: it did not answer {circuit.failures} times in a row"
            for name, circuit in circuits.items()
            if circuit.is_open
        }
        for name in left_out:
            self._probe(name, able[name], query, policy)
        asked = self._ask({name: one for name, one in able.items() if name not in left_out}, query, as_of)
        asked.failures.update(left_out)
        try:
            if not await is_set_within(asked.done, policy.budget_ms):
                log.info("recall.skipped", providers=sorted(asked.waiting), budget_ms=policy.budget_ms)
                for name in asked.waiting:
                    self._missed(LaneKey(query.agent, name))
        finally:
            asked.drop()
            if ahead is not None:
                ahead.drop()
        return _found(query.key, asked, ahead, policy)

    def _missed(self, key: LaneKey) -> None:
        """Record a failure, or an answer that exceeded the budget."""
        self._circuits[key].failed(self._clock.now(), self._entropy.fraction())

    def _probe(self, name: ProviderName, provider: Provider, query: RecallQuery, policy: RecallPolicy) -> None:
        """Test in the background whether the provider answers again; its answer is dropped."""
        key = LaneKey(query.agent, name)
        if self._circuits[key].begin_probe(self._clock.now()):
            probing = self._probing(key, provider, query, policy)
            self._probes[key] = self._tasks.start(probing, name=f"probe {name}")

    async def _probing(self, key: LaneKey, provider: Provider, query: RecallQuery, policy: RecallPolicy) -> None:
        try:
            async with asyncio.timeout(policy.budget_ms / 1000):
                await _recall(key.provider, provider, query)
        except Exception as error:  # noqa: BLE001 - third-party code in a background task
            log.info("recall.skipped", providers=[key.provider], code=type(error).__name__)
            self._missed(key)
        else:
            self._circuits[key].succeeded()
        finally:
            self._circuits[key].is_probing = False
            self._probes.pop(key, None)

    def prefetch(self, query: RecallQuery, policy: RecallPolicy, *, as_of: int | None = None) -> None:
        """Query slow providers ahead of the turn that follows this head."""
        slow = {
            name: one
            for name, one in self._able(query.agent).items()
            if one.capabilities.prefetches and not self._circuits[LaneKey(query.agent, name)].is_open
        }
        if not policy.enabled or not slow or query.key in self._prefetched:
            return
        self._prefetched[query.key] = self._ask(slow, query, as_of)
        while len(self._prefetched) > PREFETCHED_MAX:
            self._prefetched.popitem(last=False)[1].drop()

    def forget(self, session: str) -> None:
        """Drop the prefetched results of a session, because the conversation switched."""
        for key in [key for key in self._prefetched if key.session == session]:
            self._prefetched.pop(key).drop()

    def close(self) -> None:
        while self._prefetched:
            self._prefetched.popitem()[1].drop()
        for probe in list(self._probes.values()):
            probe.cancel()

    def _able(self, agent: AgentName) -> Mapping[ProviderName, Provider]:
        made = self._providers.of(agent)
        return {name: one.provider for name, one in made.items() if one.provider.capabilities.recalls}

    def _ask(self, providers: Mapping[ProviderName, Provider], query: RecallQuery, as_of: int | None) -> _Asked:
        asked = _Asked(query.group, as_of, waiting=set(providers))
        if not providers:
            asked.done.set()
        for name, provider in providers.items():
            asked.tasks.append(self._tasks.start(self._answer(asked, name, provider, query), name=f"recall {name}"))
        return asked

    async def _answer(self, asked: _Asked, name: ProviderName, provider: Provider, query: RecallQuery) -> None:
        key, is_asked, began = LaneKey(query.agent, name), False, self._clock.now()
        try:
            async with asyncio.timeout(PREFETCH_WAIT_MS / 1000):
                widened = await self._widened(query, asked.as_of)
                asked.kin, is_asked = widened.kin, True
                found, audience = await _recall(name, provider, widened), widened.audience
                # The audience is checked here too, even if the provider returned more.
                asked.answers[name] = [one for one in found if one.scope is None or audience.may_see(one.scope)]
            self._circuits[key].succeeded()
        except TimeoutError:
            asked.failures[name] = f"{name} did not answer"
        except Exception as error:  # noqa: BLE001 - third-party code: the turn continues without it
            code = error.code if isinstance(error, HoldfastError) else type(error).__name__
            log.warning("recall.skipped", providers=[name], code=code)
            asked.failures[name] = f"{name} failed"
            if is_asked:  # not if reading the store failed
                self._missed(key)
        asked.took_ms[name] = self._clock.now() - began
        asked.waiting.discard(name)
        if not asked.waiting:
            asked.done.set()

    async def _widened(self, query: RecallQuery, as_of: int | None) -> RecallQuery:
        """The query with the linked principals; a revoked link does not count."""
        if self._db is None:
            return query
        principal = query.key.principal
        key = query.agent, principal
        known_as_of, kin = self._kin.get(key, (None, ()))
        if as_of is None or known_as_of != as_of:
            linked = await self._db.read(linked_principals(principal))
            kin = tuple(one for one in linked if one != principal)
            if as_of is not None:
                self._kin[key] = as_of, kin
                self._kin.move_to_end(key)
                while len(self._kin) > KIN_MAX:
                    self._kin.popitem(last=False)
        return replace(query, kin=kin)


async def _recall(name: ProviderName, provider: Provider, query: RecallQuery) -> Sequence[Recollection]:
    with span(
        RECALL,
        name,
        gen_ai_agent_name=query.agent,
        gen_ai_conversation_id=query.key.session,
        holdfast_provider_name=name,
    ) as seen:
        found = await provider.recall(query)
        seen.note(holdfast_recall_memories=len(found))
    return found


def _found(key: RecallKey, asked: _Asked, ahead: _Asked | None, policy: RecallPolicy) -> RecallOutcome:
    answers = dict(asked.answers)
    for name, memories in ahead.answers.items() if ahead and ahead.is_like(asked) else ():
        answers[name] = [*answers.get(name, ()), *memories]
    late = [f"{name} did not answer within {policy.budget_ms} ms." for name in sorted(asked.waiting - set(answers))]
    failed = [f"{why}." for name, why in sorted(asked.failures.items()) if name not in answers]
    memories = tuple(memory for name in sorted(answers) for memory in answers[name])
    return RecallOutcome(
        key=key,
        memories=memories,
        skipped=(*late, *failed),
        took_ms={str(name): ms for name, ms in asked.took_ms.items()},
    )


def query_of(
    claim: Claim,
    turn: Turn,
    policy: RecallPolicy,
    said: Sequence[Entry],
    context: Context,
    *,
    head_seq: int | None = None,
) -> RecallQuery:
    """The recall query of a turn; with `head_seq`, that of the next turn."""
    head = turn.first_seq - 1 if head_seq is None else head_seq
    key = RecallKey(session=turn.session, epoch=turn.epoch, head_seq=head, principal=turn.principal)
    text = "\n".join(entry.text for entry in said if isinstance(entry.body, UserSaid))
    return recall.make_query(
        key,
        text,
        policy,
        agent=claim.agent,
        address=claim.address,
        where=turn.where,
        group=turn.shared or is_group(claim.address),  # several people read or write in the chat
        shown_from=_shown_from(context, turn),
    )


def _shown_from(context: Context, turn: Turn) -> int:
    """The first turn of the session that the context shows; 0 if it shows every one."""
    if context.summary is None:
        return 0
    first = next((entry for entry in context.entries if entry.turn), None)
    if first is None:
        return turn.n
    return first.turn if first.session == turn.session else 0  # a branch shows all of its own turns


def shown_of(found: RecallOutcome, policy: RecallPolicy, context: Context | None) -> Recalled | None:
    """The journal entry with the recalled text and the key of its query; None if there is nothing to show.

    What the context shows already is left out.
    """
    if not found.memories and not found.skipped:
        return None
    texts = context.memo.texts(recall.plain_words) if context else ()
    turns = context.memo.turns() if context else ()
    chosen = replace(found, memories=recall.choose(found.memories, policy, shown=texts, present=turns))
    text = recall.frame(chosen, policy)
    if not text:
        return None
    return Recalled(
        text=storable(text),
        session=found.key.session,
        epoch=found.key.epoch,
        head_seq=found.key.head_seq,
        principal=found.key.principal,
        sources=tuple(storable(f"{memory.provider}:{memory.ref}") for memory in chosen.memories),
    )
