"""Repairs: plans what a request would do, and carries a plan out in batches.

A plan holds at most `PLAN_MAX` items. Each batch is one transaction, so a repair that is cut off has done the batches
before; planning again finds the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.audit.actor import acting
from holdfast.kernel import log
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import ReplyId
from holdfast.kernel.notifier import Topic
from holdfast.repair.plan import (
    NAMEABLE,
    Candidate,
    Repaired,
    RepairFilter,
    RepairPlan,
    RepairSubject,
    RepairVerb,
    planned,
)
from holdfast.repair.repair_sql import find_candidate, list_candidates, repair_batch, states_of
from holdfast.store.ports import Ports

PLAN_MAX = 10_000
PAGE = 1_000
BATCH = 50
TOPICS = {
    RepairSubject.DELIVERY: (Topic.DELIVERY,),
    RepairSubject.REPLY: (Topic.REPLY,),
    RepairSubject.MESSAGE: (Topic.MAIL, Topic.REPLY),
}


def ignore(_done: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Repairs:
    ports: Ports

    async def plan(
        self, verb: RepairVerb, subject: RepairSubject, wanted: RepairFilter, *, limit: int = PLAN_MAX
    ) -> RepairPlan:
        """What a request would do now. Nothing is changed. Raises `InvalidInput`."""
        if (verb, subject) not in NAMEABLE:
            raise InvalidInput(f"{verb.value} does not apply to {subject.plural}")
        limit = min(limit, PLAN_MAX)
        if wanted.ids:
            return await self._plan_ids(verb, subject, wanted)
        states = states_of(verb, subject, wanted.state)
        if not states:
            known = ", ".join(NAMEABLE[verb, subject])
            raise InvalidInput(f"state = {wanted.state[:40]!r}: {verb.value} takes {subject.plural} that are {known}")
        found: list[Candidate] = []
        for state in states:
            found += await self._all(subject, wanted, state, limit + 1 - len(found))
        items = [planned(verb, item) for item in found[:limit]]
        return RepairPlan(at=self.ports.clock.now(), verb=verb, subject=subject, items=items, is_cut=len(found) > limit)

    async def _plan_ids(self, verb: RepairVerb, subject: RepairSubject, wanted: RepairFilter) -> RepairPlan:
        items, unknown = [], []
        for ident in dict.fromkeys(wanted.ids):
            found = await self.ports.db.read(find_candidate(subject, ident))
            if found is None or not wanted.sees(found.agent):
                unknown.append(ident)
            else:
                items.append(planned(verb, found))
        return RepairPlan(at=self.ports.clock.now(), verb=verb, subject=subject, items=items, unknown=unknown)

    async def _all(self, subject: RepairSubject, wanted: RepairFilter, state: str, limit: int) -> list[Candidate]:
        found: list[Candidate] = []
        after = ""
        while len(found) < limit:
            read = list_candidates(subject, wanted, state=state, after=after, limit=PAGE)
            page = await self.ports.db.read(read)
            found += [item for item in page if wanted.sees(item.agent)]
            if len(page) < PAGE:
                break
            after = page[-1].id if subject is RepairSubject.MESSAGE else str(page[-1].n)
        return found[:limit]

    async def carry_out(self, plan: RepairPlan, progress: Callable[[int], None] = ignore) -> Sequence[Repaired]:
        """Do what is possible of a plan; `progress` is told the number of items after each batch."""
        ids = [one.item.id for one in plan.possible]
        done: list[Repaired] = []
        try:
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                replies = [ReplyId(self.ports.new_id("rep")) for _ in batch]
                made = repair_batch(plan.verb, plan.subject, batch, replies, by=acting())
                done += await self.ports.db.write(made)
                progress(len(batch))
        finally:
            changed = sum(not one.obstacle for one in done)
            if changed:
                log.info("repair.done", verb=plan.verb.value, subject=plan.subject.value, count=changed)
                for topic in TOPICS[plan.subject]:
                    self.ports.notifier.wake(topic)
        return done
