"""Time zones by name, from the machine's data or from the package tzdata where there is none (Windows)."""

import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.kernel.dates import Offset
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import Instant

UTC = "UTC"  # needs no data
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)


def zone_offset(name: str) -> Offset:
    """The offset of the zone from UTC, as a function of the instant. Raises `ConfigInvalid` for an unknown zone."""
    try:
        zone = datetime.UTC if name == UTC else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # unknown; not a valid name; a folder of zones
        raise ConfigInvalid(
            f"time_zone = {name[:80]!r}: there is no such time zone; write one as in Europe/Berlin, or UTC",
            key="time_zone",
        ) from error

    def offset(at: Instant) -> int:
        ahead = (EPOCH + at * MILLISECOND).astimezone(zone).utcoffset() or 0 * MILLISECOND
        return ahead // MILLISECOND

    return offset
