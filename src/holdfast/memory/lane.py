"""Lanes: what a courier holds, and what it decides after each attempt. Values in, values out.

Rule 1: while something of a lane is in doubt, nothing behind it is sent, but for notes that do not depend on it, at
        providers where such notes may arrive in any order (memory/note_order.py).
Rule 2: an absent delivery is sent again only after the provider's quiet period, counted from when the attempt was
        known to be over: a call may send its request at any time before it is cut off (D20).
Rule 3: unreachable never parks, however long it lasts; refused parks at once; doubt parks after a long wait, and only
        while the provider is well (D21). A unit on which a well provider fails again and again is parked too, so
        that one bad turn never blocks its lane for ever.
Rule 4: a failure counts against a unit only if another unit of the provider was delivered since its failure before,
        and the unit is parked only when the failures of the others do not explain its own.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from holdfast.kernel.ids import AgentName, NodeId, Provider
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.vendor_error import NO_ANSWER, VendorError
from holdfast.memory.delivery import (
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

REASON_CHARS_MAX = 400
SEEN_MAX = 256  # attempts that a process remembers of a provider


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    """All lanes of one provider of one agent."""

    agent: AgentName
    provider: Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A parcel as it stands on its lane. Durations are judged by the store's clock."""

    n: int
    parcel: Parcel
    ask: bool  # an earlier attempt may have landed: ask before sending
    failing_for_ms: int = 0
    uncertain_for_ms: int = 0  # since the newest attempt was known to be over, with nobody knowing how
    suspect: int = 0  # how often the provider failed in a way that may be about these words, and took others meanwhile
    others_taken: bool = False  # whether another unit was delivered since the newest of those failures
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneClaim:
    key: LaneKey
    place: str
    fence: int
    node: NodeId
    packages: tuple[Package, ...]
    doubted_for_ms: int | None = None  # since an attempt on this lane last ended without proof; None without one
    passing: bool = False  # notes of this provider may pass one that waits for its quiet period


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What becomes of one package; the store makes it durable."""

    n: int
    state: DeliveryState
    delay_ms: int = 0
    receipt: str | None = None
    reason: str | None = None
    suspect: bool = False
    failing: bool = False
    again: bool = False  # proved absent: the next attempt is a first one and may render anew
    untried: bool = False  # nothing was sent: the attempt is given back, and a first one may render anew
    doubtful: bool = False  # parked although it may have landed: a replay asks first
    vendor: VendorError = NO_ANSWER

    @property
    def kept_reason(self) -> str | None:
        """For the store. The log gets `vendor.fields` instead of the vendor's words."""
        return _short(self.vendor.added_to(self.reason or "")) or None

    @property
    def leaves_doubt(self) -> bool:
        """Whether a request of the attempt may still be under way, whatever was found out about it so far."""
        return self.failing or self.again or self.doubtful or self.state is DeliveryState.UNCERTAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPolicy:
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(delay_ms_base=1_000, delay_ms_max=30_000))
    uncertain_wait_ms: int = 3_600_000
    suspects_max: int = 8
    chance_max: float = 1e-6  # that a good unit is parked by a provider which fails by chance
    poison_wait_ms: int = DAY_MS  # where nothing else is delivered that could be compared
    call_wait_ms: int = 120_000
    send_within_ms: int = 5_000  # of the claim; later the lane may be somebody else's, and no fence reaches a request


@dataclass(frozen=True, slots=True)
class Wellness:
    """What is known of the provider beside this package."""

    healthy: bool = False  # it says so itself
    failing_share: float = 1.0  # of the attempts at other units, lately
    alone: bool = False  # no other unit fails, and none was parked for want of a comparison since the last delivery


UNKNOWN = Wellness()


def settle(package: Package, outcome: Outcome, policy: DispatchPolicy, chance: float, known: Wellness) -> Settlement:
    """After an attempt."""
    settled = _settled(package, outcome, policy, chance, known)
    return settled if isinstance(outcome, Delivered) else replace(settled, vendor=outcome.vendor)


def _settled(package: Package, outcome: Outcome, policy: DispatchPolicy, chance: float, known: Wellness) -> Settlement:
    delay_ms = policy.retry.delay_ms(package.parcel.attempt, chance)
    match outcome:
        case Delivered(receipt):
            return Settlement(n=package.n, state=DeliveryState.DELIVERED, receipt=_short(receipt))
        case Refused(reason):
            return Settlement(n=package.n, state=DeliveryState.PARKED, reason=_short(reason))
        case Uncertain(reason, retry_after_ms, suspect) | Unreachable(reason, retry_after_ms, suspect):
            uncertain = isinstance(outcome, Uncertain)
            if suspect and (why := blamed(package, policy, known)):
                doubt = " (it may have landed)" if uncertain else ""
                return Settlement(
                    n=package.n,
                    state=DeliveryState.PARKED,
                    reason=_short(f"{why}{doubt}: {reason}"),
                    doubtful=uncertain,
                )
            return Settlement(
                n=package.n,
                state=DeliveryState.UNCERTAIN if uncertain else DeliveryState.SCHEDULED,
                reason=_short(reason),
                delay_ms=max(delay_ms, retry_after_ms or 0),
                suspect=suspect,
                failing=suspect or not uncertain,
            )


class Tally:
    """What one process saw of a provider lately: who was taken, and who failed in a way that may be their own fault."""

    def __init__(self) -> None:
        self.parked_alone = False  # something was parked for want of a comparison, and nothing delivered since
        self._seen: deque[tuple[str, bool]] = deque(maxlen=SEEN_MAX)

    def note(self, outcome: Outcome, place: str) -> None:
        if isinstance(outcome, Delivered):
            self._seen.append((place, True))
            self.parked_alone = False
        elif isinstance(outcome, Unreachable | Uncertain) and outcome.suspect:
            self._seen.append((place, False))

    def failing_share(self, place: str) -> float:
        """Of the attempts on other lanes. Nothing seen is taken for one failure in two attempts."""
        others = [taken for other, taken in self._seen if other != place]
        return (others.count(False) + 1) / (len(others) + 2)

    def is_alone(self, place: str) -> bool:
        """Whether no other lane failed since something was last delivered."""
        since: list[str] = []
        for other, taken in self._seen:
            since = [] if taken else [*since, other]
        return not self.parked_alone and set(since) <= {place}


TAKES_OTHERS = "the provider fails on this one each time, while it takes others"
SAYS_WELL = "the provider fails on this one for long, says that it is well, and nothing else was there to compare"


def blamed(package: Package, policy: DispatchPolicy, known: Wellness) -> str | None:
    """Why the words, and not the provider, are to blame; None while they are not.

    A provider that fails by chance fails on a good unit as well, so the share of its failures with others, to the
    power of the failures counted here, must be smaller than chance allows.
    """
    counted = _counted(package)
    if counted >= policy.suspects_max and known.failing_share**counted <= policy.chance_max:
        return TAKES_OTHERS
    waited = package.failing_for_ms >= policy.poison_wait_ms and package.parcel.attempt >= policy.suspects_max
    return SAYS_WELL if waited and known.healthy and known.alone else None


def _counted(package: Package) -> int:
    """With the failure that is being settled."""
    return package.suspect + package.others_taken


def may_park(package: Package, policy: DispatchPolicy) -> bool:
    """Whether it is time to ask the provider how it is, before something is parked."""
    return (
        _counted(package) >= policy.suspects_max
        or package.failing_for_ms >= policy.poison_wait_ms
        or package.uncertain_for_ms >= policy.uncertain_wait_ms
    )


def after_asking(
    package: Package, landing: Landing, policy: DispatchPolicy, *, quiet_ms: int, chance: float, known: Wellness
) -> Settlement:
    """After the provider was asked whether an earlier attempt landed."""
    waited = package.uncertain_for_ms
    if landing is Landing.LANDED:
        return Settlement(n=package.n, state=DeliveryState.DELIVERED, receipt="found at the provider")
    if landing is Landing.ABSENT and waited >= quiet_ms:
        return Settlement(n=package.n, state=DeliveryState.SCHEDULED, again=True)
    if landing is Landing.ABSENT:
        why = "not there, but an attempt that was cut off may still arrive"
        return Settlement(n=package.n, state=DeliveryState.UNCERTAIN, reason=why, delay_ms=quiet_ms - waited)
    if known.healthy and package.uncertain_for_ms >= policy.uncertain_wait_ms:
        return Settlement(n=package.n, state=DeliveryState.PARKED, reason="nobody can say whether it landed")
    delay_ms = policy.retry.delay_ms(package.parcel.attempt, chance)
    why = "the provider cannot say yet whether it landed"
    return Settlement(n=package.n, state=DeliveryState.UNCERTAIN, reason=why, delay_ms=delay_ms)


def too_early(claim: LaneClaim, package: Package, quiet_ms: int) -> Settlement | None:
    """For what takes words away: while a request that wrote them may still arrive, it would be undone by it."""
    waited_ms = claim.doubted_for_ms
    if package.parcel.op not in (Op.RETRACT, Op.ERASE) or waited_ms is None or waited_ms >= quiet_ms:
        return None
    why = "it waits until no earlier attempt on its lane can arrive any more"
    rest_ms = quiet_ms - max(waited_ms, 0)
    return Settlement(n=package.n, state=DeliveryState.SCHEDULED, untried=True, reason=why, delay_ms=rest_ms)


def settle_all(
    packages: Sequence[Package], outcomes: Sequence[Outcome], policy: DispatchPolicy, chance: float, known: Wellness
) -> list[Settlement]:
    """After one call for several packages of one lane: what did not land behind a failure counts as not tried.

    What may have landed behind one is in doubt like any other: a call that was cut off says so of all its packages.
    """
    settled: list[Settlement] = []
    for package, outcome in zip(packages, outcomes, strict=True):
        if any(_stops(one) for one in settled) and isinstance(outcome, Unreachable):
            settled.append(Settlement(n=package.n, state=DeliveryState.SCHEDULED, untried=True))
        else:
            settled.append(settle(package, outcome, policy, chance, known))
    return settled


def _stops(last: Settlement) -> bool:
    return last.untried or last.state in {DeliveryState.SCHEDULED, DeliveryState.UNCERTAIN}


def _short(text: str) -> str:
    """A provider's words, as they can be kept in a column and shown on a line."""
    return " ".join(text.replace("\0", "").split())[:REASON_CHARS_MAX]
