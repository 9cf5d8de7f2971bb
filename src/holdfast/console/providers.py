"""Memory providers as the pages show them: how each does now, and which samples are about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.console.page import Asked
from holdfast.kernel.ids import Instant
from holdfast.monitor.durations import duration
from holdfast.monitor.queues import OPEN_DELIVERIES
from holdfast.monitor.sample import Sample
from holdfast.monitor.status import Need, NeedKind, Urgency, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderNow:
    """A memory provider of all agents, as it is now."""

    name: str
    state: str  # well, stuck or away
    words: str
    counts: Mapping[str, int]
    lag_ms: int
    evidence: str = ""


def provider_names(asked: Asked, samples: Mapping[Instant, Sample]) -> list[str]:
    """Every provider that has something waiting, or had in the samples."""
    sampled = {key.split("/")[-1] for one in samples.values() for key in one.levels if key.startswith("lag_ms/")}
    counted = {key.split("/")[-1] for one in samples.values() for key in one.counts if key.startswith("deliveries/")}
    return sorted({key.provider for key in asked.status.queues.deliveries} | sampled | counted)


def provider_now(asked: Asked, name: str) -> ProviderNow:
    queues = [queue for key, queue in asked.status.queues.deliveries.items() if key.provider == name]
    stuck = [need for need in asked.needs if need.kind is NeedKind.LANE and need.name == name]
    away = [need for need in asked.needs if _is_away(need) and need.name == name]
    state, words, evidence = "well", "well", ""
    if away:
        state, words, evidence = "away", f"away for {duration(asked.status.at - away[0].since)}", away[0].evidence
    if stuck:
        state, words, evidence = "stuck", plural(len(stuck), "lane stuck", "lanes stuck"), stuck[0].evidence
    return ProviderNow(
        name=name,
        state=state,
        words=words,
        counts={one: sum(queue.count(one) for queue in queues) for one in (*OPEN_DELIVERIES, "parked")},
        lag_ms=max((asked.status.queues.age_ms(queue) for queue in queues), default=0),
        evidence=evidence,
    )


def _is_away(need: Need) -> bool:
    return need.kind is NeedKind.DELIVERY and need.urgency is Urgency.MENDS and need.until is not None


def lag_of(name: str) -> Callable[[str], bool]:
    return lambda key: key.startswith("lag_ms/") and key.endswith(f"/{name}")


def settled_by(name: str) -> Callable[[str], bool]:
    return lambda key: key.startswith("deliveries/delivered/") and key.endswith(f"/{name}")
