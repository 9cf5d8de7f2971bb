"""Times as people read and write them: `2026-11-19 18:02:07 CET, 3 min ago`.

They are in the zone of the machine, with `--utc` in UTC. With `--json` they are milliseconds since 1970 instead.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo

from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import Instant

AGO = re.compile(r"(\d{1,9})\s*(s|m|min|h|d)(?:\s+ago)?")
UNIT_MS = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class MachineZone(tzinfo):
    """The zone of this machine. Each time has the offset and the name that were in force at that time."""

    def fromutc(self, at: datetime) -> datetime:
        return at.replace(tzinfo=UTC).astimezone()  # has a fixed offset, so the methods below are not asked

    def utcoffset(self, _at: datetime | None) -> None: ...

    def tzname(self, _at: datetime | None) -> None: ...

    def dst(self, _at: datetime | None) -> None: ...


MACHINE = MachineZone()
_utc: ContextVar[bool] = ContextVar("utc", default=False)


@contextmanager
def shown_in(*, utc: bool) -> Iterator[None]:
    """Show the times of this block in UTC, or in the machine's zone."""
    token = _utc.set(utc)
    try:
        yield
    finally:
        _utc.reset(token)


def zone() -> tzinfo:
    """The zone in which the command shows times."""
    return UTC if _utc.get() else MACHINE


def now() -> Instant:
    from holdfast.kernel.machine import SystemClock

    return SystemClock().now()


def local_time(instant: Instant | int) -> str:
    """Date, time of day and zone."""
    return datetime.fromtimestamp(instant / 1000, zone()).strftime("%Y-%m-%d %H:%M:%S %Z")


def utc_time(instant: Instant | int) -> str:
    """For files that programs read."""
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def time_and_age(instant: Instant | int) -> str:
    """A time, and how long ago it was or how soon it is."""
    from holdfast.monitor.durations import ago

    return f"{local_time(instant)}, {ago(now() - instant)}"


def parse_time(text: str, *, option: str) -> Instant:
    """An instant from an age such as `30m`, `12h` or `7d`, a date, or a date and time, with or without a zone.

    A time without a zone is in the zone in which the command shows times. Raises `InvalidInput`; `option` is named.
    """
    if (age := AGO.fullmatch(text.strip())) is not None:
        return Instant(max(0, now() - int(age[1]) * UNIT_MS[age[2]]))
    try:
        at = datetime.fromisoformat(text.strip())
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC) if _utc.get() else at.astimezone()
        return Instant(max(0, int(at.timestamp() * 1000)))
    except (ValueError, OverflowError, OSError) as error:
        why = f"{option} {text[:40]!r}: use 30m, 12h, 7d, a date such as 2026-11-17, or '2026-11-17 18:02'"
        raise InvalidInput(why) from error
