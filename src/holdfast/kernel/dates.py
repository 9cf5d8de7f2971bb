"""Dates in text: which days a question is about, and whether a text states a time. All times are UTC.

Rule 1: a month without a year matches that month of any year; `may` is a month only next to a year or a day.
Rule 2: people report a day afterwards, so a named day also matches the following week.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.kernel.ids import Instant

DAY_MS = 86_400_000
TOLD_WITHIN_DAYS = 7
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TELLING = """
yesterday today tomorrow tonight week weeks weekend month months year years ago last next since morning evening soon
recently summer winter spring fall autumn
"""
TELLING = frozenset({*MONTHS, *WEEKDAYS, *_TELLING.split()}) - {"may"}
_BACK = {"today": 0, "yesterday": 1, "week": 7, "month": 31, "year": 366}
_UNITS = frozenset({"week", "month", "year"})
_YEAR = re.compile("(?:19|20)[0-9]{2}")

Offset: TypeAlias = Callable[[Instant], int]  # milliseconds by which local time is ahead of UTC at an instant


@dataclass(frozen=True, slots=True)
class Days:
    """A set of days: a year, a month, a day of the month, a combination of these, or a period before now."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    since: Instant | None = None

    def holds(self, at: Instant) -> bool:
        if self.since is not None:
            return at >= self.since
        if self.day is not None:
            return any(self._matches(at - back * DAY_MS) for back in range(TOLD_WITHIN_DAYS + 1))
        return self._matches(at)

    def _matches(self, at: int) -> bool:
        year, month, day = civil(at)
        asked = ((self.year, year), (self.month, month), (self.day, day))
        return all(wanted is None or wanted == found for wanted, found in asked)


def days_asked(asked: Sequence[str], now: Instant) -> Days | None:
    """The days that a question names, or None."""
    years = [int(word) for word in asked if _YEAR.fullmatch(word)]
    month, day = _month_and_day(asked, has_year=bool(years))
    if years or month:
        return Days(year=years[0] if years else None, month=month, day=day)
    for before, word in zip(("", *asked), asked, strict=False):
        if word in ("today", "yesterday") or (word in _UNITS and before in ("last", "this", "past")):
            reach = _BACK[word] * (2 if before == "last" else 1)
            return Days(since=Instant(now - now % DAY_MS - reach * DAY_MS))
    return None


def _month_and_day(asked: Sequence[str], *, has_year: bool) -> tuple[int | None, int | None]:
    for n, word in enumerate(asked):
        if word in MONTHS:
            beside = [*asked[max(0, n - 1) : n], *asked[n + 1 : n + 2]]
            days = [number for number in map(_day_number, beside) if number]
            if word != "may" or has_year or days:
                return MONTHS.index(word) + 1, days[0] if days else None
    return None, None


def tells_time(said: Sequence[str]) -> bool:
    """Whether a text states when something was or will be."""
    return any(word in TELLING or _YEAR.fullmatch(word) for word in said)


def civil(at: int) -> tuple[int, int, int]:
    """Year, month and day of an instant (Howard Hinnant's algorithm; pure modules use no calendar of the machine)."""
    shifted = at // DAY_MS + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def moment(at: int) -> str:
    """An instant to the minute, for people and models."""
    year, month, day = civil(at)
    minutes = at % DAY_MS // 60_000
    return f"{year:04}-{month:02}-{day:02} {minutes // 60:02}:{minutes % 60:02} UTC"


def _day_number(word: str) -> int | None:
    digits = word.rstrip("stndrh")
    is_number = len(digits) <= 2 and digits.isascii() and digits.isdecimal()
    return int(digits) if is_number and 1 <= int(digits) <= 31 else None
