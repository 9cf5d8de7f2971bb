"""What an operator may choose: how arrivals meet a running turn, how often to try, when to give up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.core.compress import Thresholds
from holdfast.core.delivery import DeliveryPolicy
from holdfast.core.inbound import Limits
from holdfast.core.memory import NotesPolicy
from holdfast.core.recall import RecallPolicy


class Arrivals(Enum):
    """What happens to a message that arrives while a turn runs. None is ever dropped."""

    QUEUE = "queue"  # it waits for its own turn
    STEER = "steer"  # it joins the running turn at the next step
    INTERRUPT = "interrupt"  # it ends the running turn and gets its own
    COLLECT = "collect"  # it waits, and shares one turn with those that wait beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    delay_ms_base: int = 500
    delay_ms_max: int = 60_000

    def delay_ms(self, attempt: int, chance: float = 0.5) -> int:
        """Exponential, with up to a quarter of jitter either way."""
        full = min(self.delay_ms_max, self.delay_ms_base << min(max(attempt - 1, 0), 20))
        return int(full * (0.75 + chance / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPolicy:
    arrivals: Arrivals = Arrivals.QUEUE
    turn_attempts_max: int = 5  # after this many claims a turn ends as failed, visibly (D11)
    model_attempts_max: int = 3
    model_wait_ms: int = 120_000
    tool_wait_ms: int = 120_000
    steps_max: int = 40
    unattended_max: int = 12  # turns in a row without a human before mail is held (D12)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """Everything that is configured for one agent and matters to the loops."""

    instructions: str = ""
    turn: TurnPolicy = field(default_factory=TurnPolicy)
    thresholds: Thresholds = field(default_factory=Thresholds)
    limits: Limits = field(default_factory=Limits)
    recall: RecallPolicy = field(default_factory=RecallPolicy)
    memory: Mapping[str, Mapping[str, object]] | None = None  # provider to its settings; None for the embedded ones
    notes: NotesPolicy = field(default_factory=NotesPolicy)
    deliveries: tuple[DeliveryPolicy, ...] = ()
