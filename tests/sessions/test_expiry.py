"""A session expires by the store's time alone, and a local day has exactly one boundary, through every clock change of
its zone.
"""

from datetime import date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import Instant
from holdfast.kernel.time_zones import zone_offset
from holdfast.sessions.finalisation import Cutoffs, boundary_of, cutoffs, last_boundary
from holdfast.turns.policy import DAY_MS, MINUTE_MS, ExpiryPolicy

HOUR_MS = 60 * MINUTE_MS


def instant(text: str) -> Instant:
    """An ISO time with its offset, as milliseconds."""
    return Instant(round(datetime.fromisoformat(text).timestamp() * 1000))


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()


def at(text: str) -> int:
    found = ExpiryPolicy(daily_at=text).daily_ms
    assert found is not None
    return found


# --- idle and daily --------------------------------------------------------------------------------


def test_without_a_policy_nothing_expires():
    assert cutoffs(ExpiryPolicy(), Instant(10**12), zone_offset("UTC")).latest is None


def test_idle_is_counted_from_the_last_activity_to_the_millisecond():
    found = cutoffs(ExpiryPolicy(idle_minutes=5), Instant(10**12), zone_offset("UTC"))
    assert (found.latest, found.daily) == (10**12 - 5 * MINUTE_MS, None)


def test_what_was_active_at_the_boundary_itself_belongs_to_the_new_day():
    now = instant("2026-01-10T04:00:00+01:00")
    found = cutoffs(ExpiryPolicy(daily_at="04:00", time_zone="Europe/Berlin"), now, zone_offset("Europe/Berlin"))
    assert found.latest == now - 1


def test_the_cause_is_idleness_where_that_was_reached():
    both = Cutoffs(idle=Instant(100), daily=Instant(200))
    assert (both.latest, both.cause(Instant(100)), both.cause(Instant(101))) == (200, "idle", "daily")
    assert Cutoffs(daily=Instant(5)).cause(Instant(1)) == "daily"


# --- clocks that change ----------------------------------------------------------------------------

CHANGES = [
    # zone, day, time of day, when the boundary is
    ("Europe/Berlin", "2026-03-29", "02:30", "2026-03-29T03:30:00+02:00"),  # skipped
    ("Europe/Berlin", "2026-10-25", "02:30", "2026-10-25T02:30:00+02:00"),  # twice: the first
    ("Europe/Berlin", "2026-10-25", "03:00", "2026-10-25T03:00:00+01:00"),
    ("America/New_York", "2026-03-08", "02:00", "2026-03-08T03:00:00-04:00"),  # skipped
    ("America/New_York", "2026-11-01", "01:59", "2026-11-01T01:59:00-04:00"),  # twice: the first
    ("Australia/Lord_Howe", "2026-10-04", "02:15", "2026-10-04T02:45:00+11:00"),  # half an hour is skipped
    ("Australia/Lord_Howe", "2026-04-05", "01:45", "2026-04-05T01:45:00+11:00"),  # twice: the first
    ("America/Sao_Paulo", "2018-11-04", "00:00", "2018-11-04T01:00:00-02:00"),  # midnight itself is skipped
]


@pytest.mark.parametrize(("zone", "on", "time", "expected"), CHANGES)
def test_a_boundary_on_a_day_of_change(zone, on, time, expected):
    offset = zone_offset(zone)
    assert boundary_of(day(on), at(time), offset) == instant(expected)
    assert last_boundary(instant(expected), at(time), offset) == instant(expected)
    assert last_boundary(Instant(instant(expected) - 1), at(time), offset) < instant(expected) - 20 * HOUR_MS


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"])
@pytest.mark.parametrize("time", ["00:00", "01:45", "02:00", "02:30", "23:59"])
def test_a_year_has_one_boundary_per_local_day(zone, time):
    offset, first = zone_offset(zone), day("2026-01-01")
    boundaries = [boundary_of(each, at(time), offset) for each in range(first, first + 365)]
    gaps = {later - earlier for earlier, later in pairwise(boundaries)}
    assert gaps <= {DAY_MS, DAY_MS - HOUR_MS, DAY_MS + HOUR_MS, DAY_MS - HOUR_MS // 2, DAY_MS + HOUR_MS // 2}
    local = [datetime.fromtimestamp(boundary / 1000, ZoneInfo(zone)).date() for boundary in boundaries]
    assert len(set(local)) == 365


@given(
    st.integers(min_value=0, max_value=4_000_000_000_000),
    st.integers(min_value=0, max_value=24 * 60 - 1),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]),
)
def test_the_last_boundary_is_never_in_the_future_and_never_older_than_a_long_day(now, minutes, zone):
    found = last_boundary(Instant(now), minutes * MINUTE_MS, zone_offset(zone))
    assert now - 49 * HOUR_MS < found <= now


@given(st.integers(min_value=0, max_value=4_000_000_000_000))
def test_offsets_are_those_of_the_zone(now):
    expected = datetime.fromtimestamp(now / 1000, ZoneInfo("Europe/Berlin")).utcoffset()
    assert timedelta(milliseconds=zone_offset("Europe/Berlin")(Instant(now))) == expected


# --- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["Europe/Berln", "", "../etc/passwd", "/etc/localtime", "Europe", "a\0b", "x" * 500])
def test_an_unknown_zone_is_named_with_what_to_write_instead(zone):
    with pytest.raises(
        ConfigInvalid, match=r"time_zone = .* there is no such time zone; write one as in Europe/Berlin"
    ):
        zone_offset(zone)


@pytest.mark.parametrize("time", ["4:00", "24:00", "12:60", "0400", "noon", "", "\u0661\u0662:\u0660\u0660", "04:00 "])
def test_a_time_that_is_none_is_refused(time):
    with pytest.raises(ConfigInvalid, match="it must be a time of day from 00:00 to 23:59"):
        ExpiryPolicy(daily_at=time)


@pytest.mark.parametrize("minutes", [0, -1])
def test_an_idle_time_below_a_minute_is_refused(minutes):
    with pytest.raises(ConfigInvalid, match="it must be 1 or more"):
        ExpiryPolicy(idle_minutes=minutes)
