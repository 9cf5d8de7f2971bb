"""Many histories, on every core: the violations found, and how many histories each mutant survived.

Seeds are split into chunks; a worker process runs a chunk and sends back the verdicts. The results do not depend on the
number of workers or on their speed: the digest of all digests is computed in the order of the seeds.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, count, islice

from holdfast.testing.areas import Area, areas_of
from holdfast.testing.channel_areas import channel_areas_of
from holdfast.testing.chats import has_chats
from holdfast.testing.coverage import MEASURED_MAX, Coverage, Reached, coverage_of, described, tracing
from holdfast.testing.faults import FaultPlan
from holdfast.testing.forgetting import plan_to_forget, run_forgetting
from holdfast.testing.history import Verdict, plan_of, run_history, scratch, shortened
from holdfast.testing.mutants import MUTANTS, Mutant
from holdfast.testing.report import Violation
from holdfast.testing.shrink import shrink
from holdfast.testing.worker_pool import Workers

CHUNK = 20
SHRUNK_MAX = 3  # failing histories that are shrunk; the others are only listed
SHRINK_RUNS_MAX = 150
SHORT_MESSAGES = 6  # of a shortened history, which takes half the time of a whole one and kills most mutants


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A history that broke an invariant, and the smallest plan found that still does."""

    seed: int
    violations: tuple[Violation, ...]
    plan: FaultPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The result for a mutant: after how many histories it was killed, or that it survived its budget."""

    name: str
    histories: int
    seen: Violation | None
    budget: int

    @property
    def killed(self) -> bool:
        return self.seen is not None


@dataclass(slots=True, kw_only=True)
class Campaign:
    first_seed: int
    histories: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    kills: int = 0
    pauses: int = 0
    stops: int = 0
    crashes: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)
    digest: str = ""
    coverage: Coverage = field(default_factory=lambda: coverage_of(Reached()))

    @property
    def ok(self) -> bool:
        return not self.findings and all(fate.killed for fate in self.fates)


def run_campaign(
    seeds: range,
    *,
    jobs: int | None = None,
    mutants: Sequence[str] = (),
    progressed: Callable[[int], None] = lambda _done: None,
    found: Callable[[Verdict], None] = lambda _verdict: None,
) -> Campaign:
    """Run every seed, then each mutant until it is killed.

    `progressed` is called with the number of finished pieces, `found` at once with each history that broke an
    invariant.
    """
    verdicts: dict[int, Verdict] = {}
    campaign, reached = Campaign(first_seed=seeds.start), Reached()
    with Workers(jobs) as workers:
        for chunk, measured in workers.spread(measured_chunk, _chunks(seeds[:MEASURED_MAX])):
            _collect(chunk, verdicts, found)
            reached.add(measured)
            progressed(len(chunk))
        for chunk in workers.spread(run_chunk, _chunks(seeds[MEASURED_MAX:])):
            _collect(chunk, verdicts, found)
            progressed(len(chunk))
        for fate in workers.spread(run_mutant, mutants):
            campaign.fates.append(fate)
            progressed(1)
    campaign.fates.sort(key=lambda fate: list(MUTANTS).index(fate.name))
    _sum_up(campaign, [verdicts[seed] for seed in seeds])
    campaign.coverage = coverage_of(reached)
    return campaign


def _collect(chunk: list[Verdict], verdicts: dict[int, Verdict], found: Callable[[Verdict], None]) -> None:
    for verdict in chunk:
        verdicts[verdict.seed] = verdict
        if verdict.violations:
            found(verdict)


def _chunks(seeds: range) -> list[range]:
    return [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]


def report_of(campaign: Campaign) -> dict[str, object]:
    """The campaign as plain values, for JSON."""
    return {
        "ok": campaign.ok,
        "seed": campaign.first_seed,
        "histories": campaign.histories,
        "steps": campaign.steps,
        "virtual_s": round(campaign.virtual_s),
        "kills": campaign.kills,
        "pauses": campaign.pauses,
        "stops": campaign.stops,
        "crashes": dict(sorted(campaign.crashes.items())),
        "counts": dict(sorted(campaign.counts.items())),
        "digest": campaign.digest,
        "coverage": described(campaign.coverage),
        "violations": [
            {
                "seed": found.seed,
                "violations": [{"invariant": one.invariant, "what": one.what} for one in found.violations],
                "plan": [str(part) for part in found.plan.parts] if found.plan else None,
            }
            for found in campaign.findings
        ],
        "mutants": [
            {
                "name": fate.name,
                "killed": fate.killed,
                "histories": fate.histories,
                "budget": fate.budget,
                "seen": fate.seen.invariant if fate.seen else None,
            }
            for fate in campaign.fates
        ],
    }


def run_chunk(seeds: Iterable[int]) -> list[Verdict]:
    """Run some histories, the first of them twice: the same seed gives the same digest (I18)."""
    with scratch() as folder:
        verdicts = [run_history(seed, folder=folder) for seed in seeds]
        if verdicts:
            again = run_history(verdicts[0].seed, folder=folder)
            verdicts[0] = _compared(verdicts[0], again)
    return verdicts


def measured_chunk(seeds: Iterable[int]) -> tuple[list[Verdict], Reached]:
    """Like `run_chunk`, and return what these histories reached."""
    reached = Reached()
    with tracing(reached):
        verdicts = run_chunk(seeds)
    for verdict in verdicts:
        reached.came_by(verdict.passed, verdict.struck)
    return verdicts, reached


@dataclass(frozen=True, slots=True)
class MutantRun:
    """One history with a mutant applied."""

    histories: int  # including this one
    seed: int
    seen: Violation | None  # of an invariant that the mutant breaks


def run_mutant(name: str) -> Fate:
    """Run histories with the mutant applied until one of the invariants that it breaks is reported."""
    mutant = MUTANTS[name]
    with closing(mutant_runs(mutant)) as runs:
        killed = next((run for run in runs if run.seen is not None), None)
    if killed is None:
        return Fate(name=name, histories=mutant.budget, seen=None, budget=mutant.budget)
    return Fate(name=name, histories=killed.histories, seen=killed.seen, budget=mutant.budget)


def mutant_runs(mutant: Mutant, *, short: bool = False) -> Generator[MutantRun, None, None]:
    """Histories with the mutant applied, as many as its budget has. The mutant is removed when it is closed.

    Known seeds come first. With `short` every history is shortened, to find a seed that is enough then.
    """
    live, plan = (run_forgetting, plan_to_forget) if mutant.forgets else (run_history, plan_of)
    with scratch() as folder, mutant.applied():
        for histories, (seed, is_short) in enumerate(_tries(mutant, short), start=1):
            chosen = shortened(plan(seed), SHORT_MESSAGES) if is_short else None
            verdict = live(seed, folder=folder, plan=chosen)
            if mutant.twice:
                verdict = _compared(verdict, live(seed, folder=folder, plan=chosen))
            seen = next((found for found in verdict.violations if found.invariant in mutant.breaks), None)
            yield MutantRun(histories, seed, seen)


def _tries(mutant: Mutant, short: bool) -> Iterator[tuple[int, bool]]:
    """The seeds of the budget, limited to histories in which the mutant can have an effect, and whether to shorten."""
    known = [(mutant.short, True), (mutant.first, short)]
    others = ((seed, short) for seed in count(1))
    tries = ((seed, is_short) for seed, is_short in chain(known, others) if seed is not None)
    yield from islice((one for one in tries if _may_show(mutant, one[0])), mutant.budget)


def _may_show(mutant: Mutant, seed: int) -> bool:
    chats, areas = has_chats(seed), areas_of(seed)
    beside = frozenset() if Area.FORGETTING in areas else channel_areas_of(seed, chats=chats)
    return (chats or not mutant.posts) and (mutant.area is None or mutant.area in areas | beside)


def _compared(first: Verdict, second: Verdict) -> Verdict:
    if first.digest == second.digest:
        return first
    different = Violation("I18", f"the digests are {first.digest} and {second.digest}")
    return first.with_violation(different)


def _sum_up(campaign: Campaign, verdicts: Sequence[Verdict]) -> None:
    digest = blake2b(digest_size=16)
    for verdict in verdicts:
        campaign.histories += 1
        campaign.steps += verdict.steps
        campaign.virtual_s += verdict.virtual_s
        campaign.kills += verdict.kills
        campaign.pauses += verdict.pauses
        campaign.stops += verdict.stops
        campaign.crashes.update(verdict.crashes)
        campaign.counts.update(verdict.counts)
        digest.update(verdict.digest.encode())
        if verdict.violations:
            campaign.findings.append(_finding(verdict, small=len(campaign.findings) < SHRUNK_MAX))
    campaign.digest = digest.hexdigest()


def _finding(verdict: Verdict, *, small: bool) -> Finding:
    plan = shrunk(verdict) if small else None
    return Finding(seed=verdict.seed, violations=verdict.violations, plan=plan)


def shrunk(verdict: Verdict) -> FaultPlan | None:
    """The smallest plan found that breaks one of the same invariants; None if no plan reproduces the violation."""
    broken = {violation.invariant for violation in verdict.violations} - {"I18"}
    if not broken:
        return None
    with scratch() as folder:

        def fails(plan: FaultPlan) -> bool:
            found = run_history(verdict.seed, folder=folder, plan=plan).violations
            return any(violation.invariant in broken for violation in found)

        return shrink(plan_of(verdict.seed), fails, runs_max=SHRINK_RUNS_MAX)
