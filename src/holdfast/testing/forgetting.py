"""Histories in which somebody is forgotten: the same world and the same faults, and I16 is checked.

They are a share of all random histories, judged by I16 and by the invariants that do not compare journals with what
was said. When everything was said, a client asks any live node to forget one sender, again under the same id until it
is answered, sometimes once more; turns of that person may still run. A second client asks all the time whether it is
done, and the first time that it is, the files and the providers are searched at once.

The model repeats everything that it is shown to everybody, and extracts it. In half of the histories agents write to
each other and pass on what they were told.

In some seeds one provider cannot erase: it stays pending, until an operator erases by hand and replays.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import AgentName, Provider
from holdfast.memory.forget import Forgetting
from holdfast.memory.lane import LaneKey
from holdfast.memory.provider import Capabilities
from holdfast.runtime.runtime import Runtime
from holdfast.testing import checks_forget, invariants
from holdfast.testing.areas import Area, areas_of
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.checks_forget import Traces, secretly
from holdfast.testing.crash import CrashPoint
from holdfast.testing.faults import DOWN_MS_MAX, CrashAtVerb, Fault, FaultPlan, PauseAtVerb, VerbFails
from holdfast.testing.history import Verdict, evidence_of, nodes_of, plan_of, start_afresh, verdict_of
from holdfast.testing.invariants import judge
from holdfast.testing.letters import letters
from holdfast.testing.node import NodeDown
from holdfast.testing.platform import AGAIN_S_MAX, ATTEMPTS_MAX, WAIT_S
from holdfast.testing.report import Violation
from holdfast.testing.rows import Rows, read_rows
from holdfast.testing.scope import LEASE_MS
from holdfast.testing.strangers import strangers_say
from holdfast.testing.workload import CHATS, SENDERS, Say, mark_of, marks_in, say
from holdfast.testing.world import World

FORGET = "forget_sim"
FAULTS_MAX = 3  # at verbs of forgetting, besides those of the plan
STATEMENTS_MAX = 120  # of the forgetting itself and of what runs beside it
MOMENT_S = 6.0  # how long the client waits for the moment at which it wants to ask
GLANCE_S = 0.02
BYSTANDERS = 50  # the numbers of what others say meanwhile begin here
BYSTANDERS_S = 2.0
ROUGH_S = 45.0  # longer than recalls may be under way, so that a sweep meets faults too
ASK_S = 1.0
WRITING_SHARE = 0.5  # of the histories, in which agents write to each other
UNABLE_EVERY = 3  # in every so-manieth history one provider cannot erase
VERBS = ("begin_forgetting", "mark_scrubbed", "sweep_forgotten")
PARKED = """
select id, agent, provider, place, principal from delivery where op = 'erase' and state = 'parked' order by n"""
# Memory was asked, so the model has the words now.
WITH_THE_MODEL = """
select turn.principal from session join turn on turn.session = session.id and turn.n = session.open_turn
 where turn.phase = 'thinking' and turn.last_seq > turn.first_seq"""
# Whom to forget, and when: whose turn is with the model, whose words are being summarised or sent, or anybody when it
# is quiet.
MOMENTS = (
    WITH_THE_MODEL,
    "select turn.principal from operation join turn using (session) where operation.ended_at is null",
    "select principal from delivery where state in ('sending', 'uncertain')",
    "select principal from turn where not exists (select 1 from inbound where state in ('waiting', 'in_turn'))",
)
UNITS = "select unit from erased_unit where erasure = ? and shared = 0"
# What also holds where words are missing: everything that compares neither words nor the units that held them.
ALSO = frozenset(
    {
        "acceptance_follows_time",
        "acknowledged_is_kept",
        "answers_are_paid_once",
        "claims_are_single",
        "effects_follow_the_journal",
        "effects_happen_once",
        "epochs_follow_each_other",
        "fences_hold",
        "file_is_whole",
        "humans_said_yes",
        "lanes_are_fenced",
        "lookups_say_who_reads",
        "lost_indexes_are_filled_again",
        "models_are_asked_once",
        "nothing_is_missing",
        "order_is_kept",
        "recalls_belong_to_their_turn",
        "recorded_once",
        "replies_are_posted_once",
        "replies_come_to_an_end",
        "replies_keep_their_order",
        "spending_stops_at_the_limit",
        "world_is_at_rest",
    }
)

# What needs providers that find only what they may show. Those of other such histories quote whatever they have.
AMONG_STRANGERS = frozenset(
    {
        "contexts_are_for_their_readers",
        "looks_are_for_whom_they_are",
        "notes_are_kept_apart",
        "only_the_operator_speaks_as_system",
        "places_are_kept_apart",
    }
)


def plan_to_forget(seed: int) -> FaultPlan:
    """The plan of the seed, and a few faults at the verbs of forgetting."""
    plan, rng = plan_of(seed), random.Random(f"{seed}/forget/faults")
    more: list[Fault] = []
    for _ in range(rng.randrange(FAULTS_MAX + 1)):
        point = CrashPoint(rng.choice(VERBS), rng.choice(("before", "after")))
        occurrence, down_ms = 1 + rng.randrange(2), rng.randrange(DOWN_MS_MAX)
        kinds = (
            CrashAtVerb(point, occurrence, down_ms),
            VerbFails(point, occurrence),
            PauseAtVerb(point, occurrence, int(LEASE_MS * rng.uniform(0.5, 2.0))),
        )
        more.append(rng.choice(kinds))
    return replace(plan, faults=tuple(dict.fromkeys([*plan.faults, *more])))


def run_forgetting(
    seed: int, *, folder: Path, plan: FaultPlan | None = None, told: Callable[[str], None] | None = None
) -> Verdict:
    start_afresh(folder)
    world = ForgettingWorld(seed, plan_to_forget(seed) if plan is None else plan, folder, told)
    return verdict_of(world, world.judged, told)


class ForgettingWorld(World):
    quotes = True
    has_channel_areas = False

    def __init__(self, seed: int, plan: FaultPlan, folder: Path, told: Callable[[str], None] | None = None) -> None:
        passed_on = letters(seed) if ChannelArea.AGENTS in self.beside(seed) else []
        areas = areas_of(seed) | {Area.FORGETTING}
        strangers = strangers_say(seed) if Area.STRANGERS in areas else []
        self.gossips = not strangers  # what it repeats would belong to whoever is told it
        said = [say(seed, message.n) for message in plan.messages]
        says = [secretly(one) for one in (*said, *strangers, *passed_on)]
        super().__init__(seed, plan, folder, nodes=nodes_of(seed), says=says, told=told, areas=areas)
        self.company.has_letters = False  # they are said with marks that can be searched for
        self._chance = random.Random(f"{seed}/forget")
        self._speakers = {one.sender for one in says if marks_in(one.text)} or {"ada"}
        self.person = ""
        self.before: Rows | None = None
        self.status: Forgetting | None = None
        self.early: list[Violation] = []  # found when it was first called done

    def beside(self, seed: int) -> frozenset[ChannelArea]:
        write = random.Random(f"{seed}/forget/agents").random() < WRITING_SHARE
        return frozenset({ChannelArea.AGENTS}) if write else frozenset()

    def able(self, provider: str) -> Capabilities:
        unable = provider == "slow" and self.seed % UNABLE_EVERY == 0
        return replace(super().able(provider), erases=not unable)

    # --- one history

    async def live_through(self) -> None:
        watching = self.loop.create_task(self._watch(), name="watch")
        await super().live_through()
        watching.cancel()
        self.status = await self._until_heard("status", lambda runtime: runtime.forget_status(FORGET))

    async def live_roughly(self) -> None:
        await self._ask()
        await self.come_to_rest(ROUGH_S)

    async def _ask(self) -> None:
        rng = self._chance
        self.person = await self._moment(MOMENTS[self.seed // 2 % len(MOMENTS)])
        others = [self.loop.create_task(self.platform.deliver(one), name="others") for one in self._others()]
        self.before = read_rows(self.observer())
        if rng.random() < 0.5:
            self.armed.crash_soon(1 + rng.randrange(STATEMENTS_MAX), rng.randrange(DOWN_MS_MAX))
        for _ in range(1 if rng.random() < 0.7 else 2):
            await self._until_heard("forget", lambda runtime: runtime.forget(person=self.person, id=FORGET))
        for other in others:
            await other

    async def _moment(self, sql: str) -> str:
        """Wait until something is under way; whose it is. Whoever said something, when nothing is."""
        for _ in range(int(MOMENT_S / GLANCE_S)):
            found = {str(principal) for (principal,) in self.observer().execute(sql).fetchall()} & self._speakers
            if found:
                return self._chance.choice(sorted(found))
            await asyncio.sleep(GLANCE_S)
        return self._chance.choice(sorted(self._speakers))

    def _others(self) -> list[Say]:
        """What others say meanwhile, so that providers are asked what they know while they still know it."""
        said: list[Say] = []
        for n, chat in enumerate(CHATS, BYSTANDERS):
            senders = [sender for sender in SENDERS[chat.name] if sender != self.person]
            if senders:
                at_ms = int(self._chance.random() * BYSTANDERS_S * 1000)
                plain = replace(say(self.seed, n), chat=chat, sender=senders[0], at_ms=at_ms, text=mark_of(n))
                said.append(secretly(replace(plain, addressed=True, conflicts=False)))
        self.says += said
        return said

    async def replay(self) -> None:
        """An operator erases by hand what a provider cannot erase, then replays everything that is parked."""
        for row in self.observer().execute(PARKED).fetchall():
            erasure, agent, provider, place, person = map(str, row)
            if not self.able(provider).erases:
                units = [str(unit) for (unit,) in self.observer().execute(UNITS, (erasure,)).fetchall()]
                server = self.memory.servers[LaneKey(AgentName(agent), Provider(provider))]
                server.erase(units, place, person)
        await super().replay()

    # --- clients

    async def _watch(self) -> None:
        """Ask again and again; the first time that it is done, look for what is left."""
        while True:
            await asyncio.sleep(ASK_S)
            status = await self._try("status", lambda runtime: runtime.forget_status(FORGET))
            if status is not None and status.done:
                break
        self.early += self._left(status, read_rows(self.observer()))

    async def _until_heard(
        self, what: str, asked: Callable[[Runtime], Coroutine[Any, Any, Forgetting]]
    ) -> Forgetting | None:
        for _ in range(ATTEMPTS_MAX):
            found = await self._try(what, asked)
            if found is not None:
                return found
            await asyncio.sleep(self._chance.random() * AGAIN_S_MAX)
        return None

    async def _try(self, what: str, asked: Callable[[Runtime], Coroutine[Any, Any, Forgetting]]) -> Forgetting | None:
        live = self.live()
        if not live:
            return None
        node, runtime = live[int(self._chance.random() * len(live))]

        async def ask() -> Forgetting | None:
            try:
                return await asked(runtime)
            except HoldfastError as error:
                self.loop.note("not heard", what, error.code)
                return None

        try:
            async with asyncio.timeout(WAIT_S):
                return await node.call(ask(), name=what)
        except (NodeDown, TimeoutError):
            return None

    # --- judging

    def judged(self, rows: Rows) -> list[Violation]:
        self.stop()
        if self.status is None:
            return [Violation("I16", "nobody said whether it is done")]
        self.counts += Counter(self.status.blanked)
        self.counts["done" if self.status.done else "pending"] += 1
        self.counts["erasure"] += len(self.status.parts)
        wanted = ALSO | (AMONG_STRANGERS if Area.STRANGERS in self.areas else frozenset())
        also = judge(evidence_of(self, rows), [found for found in invariants.CHECKS if found[1].__name__ in wanted])
        return [*self.early, *self._left(self.status, rows), *also]

    def _left(self, status: Forgetting, rows: Rows) -> list[Violation]:
        assert self.before is not None, "it was asked"
        files = {path.name: path.read_bytes() for path in sorted(self.path.parent.iterdir())}
        traces = Traces(
            person=self.person,
            says=self.says,
            before=self.before,
            after=rows,
            status=status,
            files=files,
            servers=self.memory.servers,
        )
        return [Violation("I16", what) for check in checks_forget.CHECKS for what in check(traces)]
