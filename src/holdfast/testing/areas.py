"""Areas: features that only some histories use, such as expiry or pruning. The seed draws each area independently.

An independent draw leaves other histories unchanged when an area is added, and lets areas meet: a session expires
while a provider is backfilled, a person is forgotten whose messages were pruned.

An area changes the configuration of the agents, starts work beside the messages (`errands.py`) and adds conditions for
the world to be at rest. The invariants are the same in all histories.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from holdfast.kernel.ids import AgentName
from holdfast.kernel.retry import RetryPolicy
from holdfast.memory.delivery import DeliveryPolicy
from holdfast.sessions.finalisation import FinishPolicy
from holdfast.store.membership import PrunePolicy
from holdfast.testing.workload import HORIZON_MS
from holdfast.turns.policy import AgentPolicy, ExpiryPolicy


class Area(Enum):
    BACKFILL = "backfill"  # an agent gets a provider during the history, which is sent the earlier turns
    EXPIRY = "expiry"  # unused sessions end, and continue when a person speaks again
    FORGETTING = "forgetting"  # a person is forgotten
    OPERATOR = "operator"  # an operator reads and changes what the command line offers
    PAUSES = "pauses"  # an operator pauses an agent and resumes it
    PRUNING = "pruning"  # rows of finished messages become tombstones, and platforms redeliver afterwards
    REBUILD = "rebuild"  # a provider's own index is lost
    REPAIRS = "repairs"  # an operator gives deliveries and replies up, and settles what arrived
    SPENDING = "spending"  # answers cost money, and agents have a daily limit
    STRANGERS = "strangers"  # people who may not see each other's words share one agent, in private and in groups


SHARES: Mapping[Area, float] = {
    Area.BACKFILL: 0.08,
    Area.EXPIRY: 0.1,
    Area.FORGETTING: 0.05,
    Area.OPERATOR: 0.1,
    Area.PAUSES: 0.1,
    Area.PRUNING: 0.1,
    Area.REBUILD: 0.08,
    Area.REPAIRS: 0.1,
    Area.SPENDING: 0.1,
    Area.STRANGERS: 0.15,
}
IDLE_S = (1.2, 2.5, 4.0)
LIMITS_MICROS = (None, 2_500, 6_000, 20_000)
COST_MICROS_MAX = 1_500
FINISH = FinishPolicy(retry=RetryPolicy(delay_ms_base=1_000, delay_ms_max=5_000), look_every_ms=1_000)
PRUNE = PrunePolicy(after_ms=1_500, every_steps=4, on_every_steps=2, batch=3)
NEVER_PRUNE = PrunePolicy()
LATE_AGENTS = ("moss", "reed")  # the writer without a mailbox has the configuration of fern, and keeps it


@lru_cache(maxsize=64)
def areas_of(seed: int) -> frozenset[Area]:
    return frozenset(area for area, share in SHARES.items() if _chance(seed, area).random() < share)


def _chance(seed: int | str, area: Area) -> random.Random:
    return random.Random(f"{seed}/area/{area.value}")


class QuickExpiry(ExpiryPolicy, frozen=True, kw_only=True):
    """Expiry within seconds; an operator can configure minutes at least."""

    idle_s: float = 2.5

    @property
    def idle_ms(self) -> int:
        return int(self.idle_s * 1_000)


def configured(
    seed: int | str, areas: frozenset[Area], policies: Mapping[AgentName, AgentPolicy]
) -> dict[AgentName, AgentPolicy]:
    """The agents' policies, with the additions of the history's areas."""
    made = dict(policies)
    if Area.EXPIRY in areas:
        rng = random.Random(f"{seed}/expiry")
        made = {name: replace(policy, expiry=QuickExpiry(idle_s=rng.choice(IDLE_S))) for name, policy in made.items()}
    if Area.SPENDING in areas:
        rng = random.Random(f"{seed}/limits")
        made = {name: replace(policy, daily_spend_micros=rng.choice(LIMITS_MICROS)) for name, policy in made.items()}
    return made


def cost_micros(seed: int | str, answer: int) -> int:
    return 1 + int(random.Random(f"{seed}/cost/{answer}").random() * COST_MICROS_MAX)


@dataclass(frozen=True, slots=True)
class Late:
    """A provider that is configured only after the history has run for a while."""

    agent: AgentName
    policy: DeliveryPolicy
    at_ms: int


def late_provider(seed: int | str, areas: frozenset[Area], policies: Mapping[AgentName, AgentPolicy]) -> Late | None:
    rng = random.Random(f"{seed}/late")
    choices = [(AgentName(name), policy) for name in LATE_AGENTS for policy in policies[AgentName(name)].deliveries]
    if Area.BACKFILL not in areas or not choices:
        return None
    return Late(*rng.choice(choices), at_ms=1_000 + rng.randrange(HORIZON_MS))


def without(policies: Mapping[AgentName, AgentPolicy], late: Late | None) -> dict[AgentName, AgentPolicy]:
    """The policies before the late provider was configured."""
    made = dict(policies)
    if late is not None:
        kept = tuple(policy for policy in made[late.agent].deliveries if policy != late.policy)
        made[late.agent] = replace(made[late.agent], deliveries=kept)
    return made
