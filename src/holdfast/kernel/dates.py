"""Days and moments of an instant, in UTC. Pure modules use no calendar of the machine."""

from collections.abc import Callable
from typing import TypeAlias

from holdfast.kernel.ids import Instant

DAY_MS = 86_400_000

Offset: TypeAlias = Callable[[Instant], int]  # milliseconds by which local time is ahead of UTC at an instant


def civil(at: int) -> tuple[int, int, int]:
    """Year, month and day of an instant (Howard Hinnant's algorithm)."""
    shifted = at // DAY_MS + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def iso_day(at: int) -> str:
    """The day of an instant, as in 2026-05-04."""
    year, month, day = civil(at)
    return f"{year:04}-{month:02}-{day:02}"


def moment(at: int) -> str:
    """An instant to the minute, for people and models."""
    minutes = at % DAY_MS // 60_000
    return f"{iso_day(at)} {minutes // 60:02}:{minutes % 60:02} UTC"
