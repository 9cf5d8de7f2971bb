"""The faults of a history: drawn from a seed, represented as values, removable one by one.

A plan is decided before the history starts, so that `shrink` can drop a fault without moving the others.
Faults name occurrences (the third `commit_turn`, the 57th statement, step 1,200), never times, since
times change with every other fault. Each fires at most once. A crash at a verb or statement hits the
node that makes that call.

The plan does not know what the verbs do: `FaultScope` lists what can fail.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias, TypeVar

from holdfast.testing.crash import CrashPoint

FAULTS_PER_KIND_MAX = 4
DOWN_MS_MAX = 3_000  # how long a crashed node stays down
DELAY_MS_MAX = 5_000  # of a late answer, a redelivery, an overtaken message
PROVIDER_DELAY_MS_MAX = 3_000
NAPS_MAX = 2
PROVIDER_FAULTS = 0.2  # of all calls to providers


class ModelFailure(Enum):
    SILENT = "silent"  # never answers
    EMPTY = "empty"
    GARBAGE = "garbage"
    RAISES = "raises"
    SLOW = "slow"  # answers after delay_ms


class ProviderFailure(Enum):
    BEFORE_EFFECT = "before_effect"  # fails without effect
    LIMITED = "limited"  # 429: not before delay_ms are over
    SUSPECT = "suspect"  # an error that the text may have caused
    REFUSED = "refused"  # will never accept this text
    AFTER_EFFECT = "after_effect"  # takes effect, but the answer is lost
    RAISES = "raises"  # takes effect, but its code raises
    SHORT = "short"  # takes effect, but answers for fewer parcels than it was given
    LATE = "late"  # the connection is lost, and the request arrives afterwards, or never
    STALLS = "stalls"  # no answer at all; the request arrives at any time, or never
    TWICE = "twice"  # the network delivers the request twice
    LIES = "lies"  # for delay_ms it reports every delivery as possibly landed
    SLOW = "slow"  # answers after delay_ms
    DOWN = "down"  # refuses every connection for delay_ms


class PlatformFailure(Enum):
    REDELIVERED = "redelivered"  # sent again although acknowledged
    LATE = "late"  # overtaken by later messages
    ACK_LOST = "ack_lost"  # accepted, but the platform never learns


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL of a node at a step; it starts again after `down_ms`."""

    step: int
    node: int
    down_ms: int


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP of a node at a step, for `length_ms`."""

    step: int
    node: int
    length_ms: int


@dataclass(frozen=True, slots=True)
class PauseAtVerb:
    """SIGSTOP of the node that makes the `occurrence`-th call of a verb, before or after it, for `length_ms`."""

    point: CrashPoint
    occurrence: int
    length_ms: int


@dataclass(frozen=True, slots=True)
class CrashAtVerb:
    """The node that makes the `occurrence`-th call of a verb dies before or after it."""

    point: CrashPoint
    occurrence: int
    down_ms: int


@dataclass(frozen=True, slots=True)
class VerbFails:
    """The `occurrence`-th call of a verb fails: before it did anything, or after, with its answer lost."""

    point: CrashPoint
    occurrence: int


@dataclass(frozen=True, slots=True)
class Stop:
    """A node is asked to stop at a step, as by SIGTERM; it starts again after `down_ms`."""

    step: int
    node: int
    down_ms: int


@dataclass(frozen=True, slots=True)
class CrashAtStatement:
    """The node that sends the `occurrence`-th statement of the history dies just before it."""

    occurrence: int
    down_ms: int


@dataclass(frozen=True, slots=True)
class ModelFault:
    occurrence: int
    failure: ModelFailure
    delay_ms: int


@dataclass(frozen=True, slots=True)
class ProviderFault:
    occurrence: int
    failure: ProviderFailure
    delay_ms: int


@dataclass(frozen=True, slots=True)
class PlatformFault:
    """Something happens to the n-th message of the workload; n does not move when others are left out."""

    message: int
    failure: PlatformFailure
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Message:
    """The n-th message of the workload. Part of the plan so that shrinking can leave it out."""

    n: int


Fault: TypeAlias = (
    Kill
    | Pause
    | PauseAtVerb
    | Stop
    | CrashAtVerb
    | VerbFails
    | CrashAtStatement
    | ModelFault
    | ProviderFault
    | PlatformFault
)
Part: TypeAlias = Fault | Message
F = TypeVar("F", bound=Fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultScope:
    """What can fail in a history: how many of each, and how long a lease lasts."""

    nodes: int = 2
    steps: int = 2_000
    messages: int = 20
    points: tuple[CrashPoint, ...] = ()
    naps: tuple[CrashPoint, ...] = ()  # where a pause of a node matters most
    post_naps: tuple[CrashPoint, ...] = ()
    statements: int = 0
    model_calls: int = 0
    provider_calls: int = 0
    lease_ms: int = 15_000


@dataclass(frozen=True, slots=True)
class FaultPlan:
    faults: tuple[Fault, ...] = ()
    messages: tuple[Message, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part that can be left out, faults first."""
        return (*self.faults, *self.messages)

    def of(self, kind: type[F]) -> tuple[F, ...]:
        return tuple(fault for fault in self.faults if isinstance(fault, kind))

    def without(self, *dropped: Part) -> "FaultPlan":
        return self.only(part for part in self.parts if part not in dropped)

    def only(self, kept: Iterable[Part]) -> "FaultPlan":
        """The same plan, in the same order, with only these parts."""
        chosen = set(kept)
        return replace(
            self,
            faults=tuple(fault for fault in self.faults if fault in chosen),
            messages=tuple(message for message in self.messages if message in chosen),
        )


def draw(seed: int | str, scope: FaultScope) -> FaultPlan:
    """The plan of a seed. Plans run from no fault at all to a few of every kind."""
    rng, far = random.Random(f"{seed}/faults"), random.Random(f"{seed}/providers")
    faults = [*_outages(rng, scope), *_crashes(rng, scope), *_failures(rng, scope), *_far_faults(far, scope)]
    faults += _naps(random.Random(f"{seed}/posts"), scope.post_naps, scope)
    return FaultPlan(tuple(dict.fromkeys(faults)), tuple(Message(n) for n in range(scope.messages)))


def _outages(rng: random.Random, scope: FaultScope) -> list[Fault]:
    kills = [
        Kill(rng.randrange(scope.steps), rng.randrange(scope.nodes), rng.randrange(DOWN_MS_MAX))
        for _ in range(_how_many(rng))
    ]
    pauses = [
        Pause(rng.randrange(scope.steps), rng.randrange(scope.nodes), _pause_ms(rng, scope.lease_ms))
        for _ in range(_how_many(rng))
    ]
    stops = [
        Stop(rng.randrange(scope.steps), rng.randrange(scope.nodes), rng.randrange(DOWN_MS_MAX))
        for _ in range(rng.randrange(2))
    ]
    return [*kills, *pauses, *stops]


def _crashes(rng: random.Random, scope: FaultScope) -> list[Fault]:
    faults: list[Fault] = []
    if scope.points:
        faults += [
            CrashAtVerb(rng.choice(scope.points), _which(rng, scope.messages), rng.randrange(DOWN_MS_MAX))
            for _ in range(_how_many(rng))
        ]
        faults += [VerbFails(rng.choice(scope.points), _which(rng, scope.messages)) for _ in range(_how_many(rng))]
    if scope.statements:
        faults += [
            CrashAtStatement(_which(rng, scope.statements), rng.randrange(DOWN_MS_MAX)) for _ in range(_how_many(rng))
        ]
    return faults


def _failures(rng: random.Random, scope: FaultScope) -> list[Fault]:
    def delay_ms() -> int:
        return rng.randrange(DELAY_MS_MAX)

    faults: list[Fault] = []
    if scope.model_calls:
        faults += [
            ModelFault(_which(rng, scope.model_calls), rng.choice(list(ModelFailure)), delay_ms())
            for _ in range(_how_many(rng))
        ]
    if scope.messages:
        faults += [
            PlatformFault(rng.randrange(scope.messages), rng.choice(list(PlatformFailure)), delay_ms())
            for _ in range(_how_many(rng))
        ]
    return faults


def _far_faults(rng: random.Random, scope: FaultScope) -> list[Fault]:
    """Faults of one provider call in five, in every history, and pauses of nodes that hold a claim."""
    failures = list(ProviderFailure)
    return _naps(rng, scope.naps, scope) + [
        ProviderFault(call, failures[int(rng.random() * len(failures))], int(rng.random() * PROVIDER_DELAY_MS_MAX))
        for call in range(1, scope.provider_calls + 1)
        if rng.random() < PROVIDER_FAULTS
    ]


def _naps(rng: random.Random, places: Sequence[CrashPoint], scope: FaultScope) -> list[Fault]:
    return [
        PauseAtVerb(rng.choice(places), 1 + rng.randrange(scope.messages), _pause_ms(rng, scope.lease_ms))
        for _ in range(rng.randrange(NAPS_MAX + 1) if places and scope.messages else 0)
    ]


def _how_many(rng: random.Random) -> int:
    return rng.randrange(FAULTS_PER_KIND_MAX + 1)


def _which(rng: random.Random, most: int) -> int:
    """An occurrence from 1 to `most`. Half of them are early, where every history passes."""
    return int(most ** rng.random()) if rng.random() < 0.5 else 1 + rng.randrange(most)


def _pause_ms(rng: random.Random, lease_ms: int) -> int:
    """Some pauses end within the lease, some far beyond it, and most during the takeover by another node."""
    least, most = rng.choice(((0.1, 0.9), (1.0, 1.6), (1.0, 1.6), (1.1, 3.0)))
    return int(lease_ms * rng.uniform(least, most))
