"""Histories in which a person is forgotten: the same world and the same faults, with a check of I16.

They are a share of all random histories, judged by I16 and by the invariants that do not compare journals with the
workload. After the workload, a client asks any live node to forget one sender, repeats the request under the same id
until it has an answer, and sometimes once more; turns of that person may still run. A second client keeps asking for
the status. When it is first reported as done, the files and the providers are searched at once.

The model repeats everything that it is shown, to every user, and extracts it. In half of the histories agents message
each other and pass on the words of people.

In some seeds one provider cannot erase: the request stays pending until an operator erases by hand and replays.
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
from holdfast.testing.agent_messages import agent_requests
from holdfast.testing.areas import Area, areas_of
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.checks_forget import Traces, secretly
from holdfast.testing.crash import CrashPoint
from holdfast.testing.faults import DOWN_MS_MAX, CrashAtVerb, Fault, FaultPlan, PauseAtVerb, VerbFails
from holdfast.testing.history import Verdict, evidence_of, nodes_of, plan_of, start_afresh, verdict_of
from holdfast.testing.invariants import judge
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
STATEMENTS_MAX = 120  # of the forgetting itself and of concurrent work
MOMENT_S = 6.0  # how long the client waits for the situation in which it wants to ask
GLANCE_S = 0.02
BYSTANDERS = 50  # the numbers of messages that others send meanwhile begin here
BYSTANDERS_S = 2.0
ROUGH_S = 45.0  # longer than a recall may take, so that faults hit the sweep too
ASK_S = 1.0
WRITING_SHARE = 0.5  # of the histories have agents that message each other
UNABLE_EVERY = 3  # in one history of so many one provider cannot erase
VERBS = ("begin_forgetting", "mark_scrubbed", "sweep_forgotten")
PARKED = """
select id, agent, provider, place, principal from delivery where op = 'erase' and state = 'parked' order by n"""
# Recall has ended, so the model has the words now.
WITH_THE_MODEL = """
select turn.principal from session join turn on turn.session = session.id and turn.n = session.open_turn
 where turn.phase = 'thinking' and turn.last_seq > turn.first_seq"""
# Whom to forget, and when: the person whose turn is with the model, whose words are being summarised or delivered, or
# any person while nothing runs.
MOMENTS = (
    WITH_THE_MODEL,
    "select turn.principal from operation join turn using (session) where operation.ended_at is null",
    "select principal from delivery where state in ('sending', 'uncertain')",
    "select principal from turn where not exists (select 1 from inbound where state in ('waiting', 'in_turn'))",
)
UNITS = "select unit from erased_unit where erasure = ? and shared = 0"
# The checks that hold where words are missing: those that compare neither words nor units.
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

# The checks that need providers with visibility rules. In other such histories providers quote everything they have.
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
        passed_on = agent_requests(seed) if ChannelArea.AGENTS in self.beside(seed) else []
        areas = areas_of(seed) | {Area.FORGETTING}
        strangers = strangers_say(seed) if Area.STRANGERS in areas else []
        self.gossips = not strangers  # a repeated text would belong to the person it is repeated to
        said = [say(seed, message.n) for message in plan.messages]
        says = [secretly(one) for one in (*said, *strangers, *passed_on)]
        super().__init__(seed, plan, folder, nodes=nodes_of(seed), says=says, told=told, areas=areas)
        self.company.has_agent_requests = False  # they are sent with searchable marks
        self._chance = random.Random(f"{seed}/forget")
        self._speakers = {one.sender for one in says if marks_in(one.text)} or {"ada"}
        self.person = ""
        self.before: Rows | None = None
        self.status: Forgetting | None = None
        self.early: list[Violation] = []  # found when the request was first reported as done

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
        """Wait until the query finds work in progress and return its principal; any sender if it finds none."""
        for _ in range(int(MOMENT_S / GLANCE_S)):
            found = {str(principal) for (principal,) in self.observer().execute(sql).fetchall()} & self._speakers
            if found:
                return self._chance.choice(sorted(found))
            await asyncio.sleep(GLANCE_S)
        return self._chance.choice(sorted(self._speakers))

    def _others(self) -> list[Say]:
        """Messages of others meanwhile, so that providers are queried before they have erased."""
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
        """An operator erases by hand what a provider cannot erase, then replays every parked delivery."""
        for row in self.observer().execute(PARKED).fetchall():
            erasure, agent, provider, place, person = map(str, row)
            if not self.able(provider).erases:
                units = [str(unit) for (unit,) in self.observer().execute(UNITS, (erasure,)).fetchall()]
                server = self.memory.servers[LaneKey(AgentName(agent), Provider(provider))]
                server.erase(units, place, person)
        await super().replay()

    # --- clients

    async def _watch(self) -> None:
        """Poll the status; when it is first reported as done, search for remaining words."""
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
            return [Violation("I16", "the request was never answered")]
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
