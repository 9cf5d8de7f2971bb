"""Lanes: the claim of a lane, and the settlement of its deliveries after each attempt. This module is pure.

Rule 1: while a delivery of a lane is in doubt, no later delivery of the lane is sent, except for notes that do not
        depend on it, at providers where such notes may arrive in any order (`may_pass`).
Rule 2: an absent delivery is resent only after the provider's quiet period, counted from the known end of the attempt:
        a call may send its request at any time before it is cancelled (D20).
Rule 3: an unreachable provider never parks a delivery, however long the outage; a refusal parks it at once; a doubt
        parks it after a long wait, and only while the provider is healthy (D21). A unit on which a healthy provider
        fails repeatedly is parked too, so that one bad turn never blocks its lane for ever.
Rule 4: a failure counts against a unit only if another unit of the provider was delivered since the previous failure,
        and the unit is parked only if the failure rate of other units does not explain its failures.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.kernel.ids import AgentName, Instant, NodeId, Provider
from holdfast.kernel.retry import CircuitBreaker, RetryPolicy
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError, short
from holdfast.memory.delivery import (
    OPEN,
    Delivered,
    DeliveryState,
    Landing,
    Op,
    Outcome,
    Parcel,
    Refused,
    Uncertain,
    Unreachable,
)
from holdfast.turns.policy import DAY_MS

SEEN_MAX = 256  # attempts per provider in the tally


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    """The key of all lanes of one provider of one agent."""

    agent: AgentName
    provider: Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A parcel with its state on the lane. Durations are measured by the store's clock."""

    n: int
    parcel: Parcel
    ask: bool  # an earlier attempt may have landed: ask before sending
    failing_for_ms: int = 0
    uncertain_for_ms: int = 0  # since the newest attempt ended with an unknown outcome
    suspect: int = 0  # possibly content-related failures between which other units were delivered
    others_taken: bool = False  # whether another unit was delivered since the newest such failure
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneClaim:
    key: LaneKey
    place: str
    fence: int
    node: NodeId
    packages: tuple[Package, ...]
    doubted_for_ms: int | None = None  # since the last attempt on this lane with an unknown outcome
    passing: bool = False  # notes may overtake a note that waits for its quiet period


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The new state of one package, to be stored."""

    n: int
    state: DeliveryState
    delay_ms: int = 0
    receipt: str | None = None
    reason: str | None = None
    suspect: bool = False
    failing: bool = False
    again: bool = False  # proved absent: the next attempt counts as the first and may render differently
    untried: bool = False  # nothing was sent: the attempt is not counted, and a first one may render differently
    doubtful: bool = False  # parked, but may have landed: a replay asks first
    vendor: VendorError = NO_ANSWER

    @property
    def leaves_doubt(self) -> bool:
        """Whether a request of the attempt may still take effect."""
        return self.failing or self.again or self.doubtful or self.state is DeliveryState.UNCERTAIN

    def attempt_outcome(self, *, asked: bool) -> str | None:
        """How the attempt ended, for people; None if there was none, or if it settled the delivery well.

        `asked` says that the provider was only asked about an earlier attempt.
        """
        if self.untried or self.state in {DeliveryState.DELIVERED, DeliveryState.DROPPED}:
            return None
        if self.state is DeliveryState.PARKED:
            return "parked"
        if asked:
            return "absent" if self.again else "unclear"
        return "uncertain" if self.state is DeliveryState.UNCERTAIN else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPolicy:
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=1_000, delay_ms_max=30_000))
    uncertain_wait_ms: int = 3_600_000
    suspects_max: int = 8
    chance_max: float = 1e-6  # probability that a randomly failing provider gets a good unit parked
    poison_wait_ms: int = DAY_MS  # applies if no other unit is delivered for comparison
    call_wait_ms: int = 120_000
    send_within_ms: int = 5_000  # since the claim; an older claim may be lost, and a fence does not stop a request


@dataclass(frozen=True, slots=True)
class Wellness:
    """The provider's health, apart from this package."""

    healthy: bool = False  # as reported by the provider
    failing_share: float = 1.0  # of recent attempts at other units
    alone: bool = False  # no other lane failed, and no unit was parked without a comparison, since the last delivery


UNKNOWN = Wellness()


def settle(package: Package, outcome: Outcome, policy: DispatchPolicy, chance: float, known: Wellness) -> Settlement:
    """The settlement after an attempt."""
    delay_ms = policy.retry.delay_ms(package.parcel.attempt, chance)
    match outcome:
        case Delivered(receipt):
            return Settlement(n=package.n, state=DeliveryState.DELIVERED, receipt=short(receipt))
        case Refused(reason):
            return Settlement(n=package.n, state=DeliveryState.PARKED, reason=short(reason), vendor=outcome.vendor)
        case Uncertain(reason, retry_after_ms, suspect) | Unreachable(reason, retry_after_ms, suspect):
            uncertain = isinstance(outcome, Uncertain)
            if suspect and (why := blamed(package, policy, known)):
                doubt = " (it may have arrived)" if uncertain else ""
                return Settlement(
                    n=package.n,
                    state=DeliveryState.PARKED,
                    reason=short(f"{why}{doubt}: {reason}"),
                    doubtful=uncertain,
                    vendor=outcome.vendor,
                )
            return Settlement(
                n=package.n,
                state=DeliveryState.UNCERTAIN if uncertain else DeliveryState.SCHEDULED,
                reason=short(reason),
                delay_ms=max(delay_ms, retry_after_ms or 0),
                suspect=suspect,
                failing=suspect or not uncertain,
                vendor=outcome.vendor,
            )


def note_outcome(circuit: CircuitBreaker, outcome: Outcome, now: Instant, chance: float, lane: str = "") -> None:
    """Update a provider's circuit breaker. A failure that the content of one lane may have caused names the lane."""
    match outcome:
        case Delivered() | Refused():
            circuit.succeeded()
        case Unreachable(retry_after_ms=wait_ms, suspect=False):
            circuit.failed(now, chance, wait_ms=wait_ms or 0)
        case Unreachable(retry_after_ms=wait_ms) | Uncertain(retry_after_ms=wait_ms, away=True):
            circuit.failed(now, chance, wait_ms=wait_ms or 0, cause=lane)
        case Uncertain():
            if circuit.is_open:
                circuit.failed(now, chance)


class Tally:
    """A process's recent attempts at one provider: deliveries, and failures that may be content-related."""

    def __init__(self) -> None:
        self.parked_alone = False  # a unit was parked without a comparison, and none was delivered since
        self._seen: deque[tuple[str, bool]] = deque(maxlen=SEEN_MAX)

    def note(self, outcome: Outcome, place: str) -> None:
        if isinstance(outcome, Delivered):
            self._seen.append((place, True))
            self.parked_alone = False
        elif isinstance(outcome, Unreachable | Uncertain) and outcome.suspect:
            self._seen.append((place, False))

    def failing_share(self, place: str) -> float:
        """The share of failures on other lanes, with one success and one failure added: 1/2 without attempts."""
        others = [taken for other, taken in self._seen if other != place]
        return (others.count(False) + 1) / (len(others) + 2)

    def is_alone(self, place: str) -> bool:
        """Whether no other lane failed since the last delivery."""
        since: list[str] = []
        for other, taken in self._seen:
            since = [] if taken else [*since, other]
        return not self.parked_alone and set(since) <= {place}


TAKES_OTHERS = "the provider fails on this delivery each time and accepts others"
SAYS_WELL = "the provider has failed on this delivery for long, reports to be healthy, and got no other one to compare"


def blamed(package: Package, policy: DispatchPolicy, known: Wellness) -> str | None:
    """The reason to blame the content and not the provider; None if there is none.

    A randomly failing provider fails on good units as well: its failure share on other units, to the power of the
    failures counted here, is the probability that a good unit failed as often. It must not exceed `chance_max`.
    """
    counted = package.suspect + package.others_taken  # including the failure that is being settled
    if counted >= policy.suspects_max and known.failing_share**counted <= policy.chance_max:
        return TAKES_OTHERS
    waited = package.failing_for_ms >= policy.poison_wait_ms and package.parcel.attempt >= policy.suspects_max
    return SAYS_WELL if waited and known.healthy and known.alone else None


def may_park(package: Package, policy: DispatchPolicy) -> bool:
    """Whether the package may be parked, so that the provider's health is needed."""
    return (
        package.suspect + package.others_taken >= policy.suspects_max
        or package.failing_for_ms >= policy.poison_wait_ms
        or package.uncertain_for_ms >= policy.uncertain_wait_ms
    )


def after_asking(
    package: Package, landing: Landing, policy: DispatchPolicy, *, quiet_ms: int, chance: float, known: Wellness
) -> Settlement:
    """The settlement after the provider was asked whether an earlier attempt landed."""
    waited = package.uncertain_for_ms
    if landing is Landing.LANDED:
        return Settlement(n=package.n, state=DeliveryState.DELIVERED, receipt="found at the provider")
    if landing is Landing.ABSENT and waited >= quiet_ms:
        return Settlement(n=package.n, state=DeliveryState.SCHEDULED, again=True)
    if landing is Landing.ABSENT:
        why = "the provider does not have it, but an interrupted attempt may still arrive"
        return Settlement(n=package.n, state=DeliveryState.UNCERTAIN, reason=why, delay_ms=quiet_ms - waited)
    if known.healthy and package.uncertain_for_ms >= policy.uncertain_wait_ms:
        return Settlement(n=package.n, state=DeliveryState.PARKED, reason="the provider cannot tell whether it arrived")
    delay_ms = policy.retry.delay_ms(package.parcel.attempt, chance)
    why = "the provider cannot tell yet whether it arrived"
    return Settlement(n=package.n, state=DeliveryState.UNCERTAIN, reason=why, delay_ms=delay_ms)


def too_early(claim: LaneClaim, package: Package, quiet_ms: int) -> Settlement | None:
    """Postpone a retraction or erasure while an earlier write may still arrive and undo it; None if it may be sent."""
    waited_ms = claim.doubted_for_ms
    if package.parcel.op not in (Op.RETRACT, Op.ERASE) or waited_ms is None or waited_ms >= quiet_ms:
        return None
    why = "it waits until earlier attempts on its lane can no longer arrive"
    rest_ms = quiet_ms - max(waited_ms, 0)
    return Settlement(n=package.n, state=DeliveryState.SCHEDULED, untried=True, reason=why, delay_ms=rest_ms)


def settle_all(
    packages: Sequence[Package], outcomes: Sequence[Outcome], policy: DispatchPolicy, chance: float, known: Wellness
) -> list[Settlement]:
    """The settlements after one call for several packages of one lane.

    An unreachable package after a failed one counts as untried. An uncertain one after a failed one is in doubt like
    any other: a cancelled call reports all its packages as uncertain.
    """
    settled: list[Settlement] = []
    for package, outcome in zip(packages, outcomes, strict=True):
        if any(one.state in OPEN for one in settled) and isinstance(outcome, Unreachable):
            settled.append(untried(package))
        else:
            settled.append(settle(package, outcome, policy, chance, known))
    return settled


def untried(package: Package) -> Settlement:
    return Settlement(n=package.n, state=DeliveryState.SCHEDULED, untried=True)


def may_pass(parcel: Parcel, waiting: Iterable[Parcel]) -> bool:
    """Whether a parcel may be sent before the earlier parcels in `waiting`, whose outcomes are unknown.

    A provider identifies a note by its text. Two notes without a common text have the same result in either order; a
    note that replaces, removes or repeats the text of another depends on it. Turns never overtake: their order is
    visible to people.
    """
    texts = _texts(parcel)
    return all(texts and (before := _texts(one)) and not texts & before for one in waiting)


def _texts(parcel: Parcel) -> set[str]:
    """The texts that a note writes and removes; empty for other parcels."""
    if parcel.op is not Op.REMEMBER or parcel.note is None:
        return set()
    return {text for text in (parcel.note.text.strip(), parcel.note.old_text.strip()) if text}
