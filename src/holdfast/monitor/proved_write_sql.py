"""When each agent's memory was proved to arrive: the newest delivery that a provider acknowledged."""

from collections.abc import Mapping

from holdfast.kernel.ids import Instant
from holdfast.store.script import Script, rows, verb

PROVED = "select agent, max(delivered_at) from lane where delivered_at is not null group by agent"


@verb
def read_proved_writes() -> Script[Mapping[str, Instant]]:
    """The time of the newest acknowledged delivery, by agent."""
    return dict((yield from rows(PROVED)))
