"""Time zones, by name: from the machine's own data, or from the package tzdata where it has none (Windows)."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.core.errors import ConfigInvalid
from holdfast.core.expiry import Offset
from holdfast.core.ids import Instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def zone_offset(name: str) -> Offset:
    """How far local time of the zone is ahead of UTC, by instant. Raises `ConfigInvalid` for an unknown zone."""
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # unknown; not a name at all; a folder of zones
        raise ConfigInvalid(
            f"time_zone = {name[:80]!r}: there is no such time zone; write one as in Europe/Berlin, or UTC",
            key="time_zone",
        ) from error

    def offset(at: Instant) -> int:
        ahead = (EPOCH + timedelta(milliseconds=at)).astimezone(zone).utcoffset() or timedelta()
        return ahead // timedelta(milliseconds=1)

    return offset
