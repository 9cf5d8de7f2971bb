"""Durations and ages as people read them, rounded down: durations have at most two units, ages one."""

UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
AGES = (("days", 172_800_000, 86_400_000), ("h", 7_200_000, 3_600_000), ("min", 60_000, 60_000), ("s", 0, 1_000))


def duration(ms: float) -> str:
    """`3 m 26 s`, `0.7 s`, `60 ms`."""
    ms = max(0, int(ms))
    if ms < 100:
        return f"{ms} ms"
    if ms < 10_000:
        return f"{ms // 100 / 10:g} s"
    for place, (name, size) in enumerate(UNITS):
        if ms >= size:
            rest_name, rest_size = UNITS[min(place + 1, len(UNITS) - 1)]
            rest = ms % size // rest_size
            return f"{ms // size} {name} {rest} {rest_name}" if rest and rest_size < size else f"{ms // size} {name}"
    return f"{ms} ms"


def ago(ms: float) -> str:
    """`3 min ago`, `in 2 h`."""
    name, _, size = next(unit for unit in AGES if abs(ms) >= unit[1])
    age = f"{int(abs(ms)) // size} {name}"
    return f"in {age}" if ms < 0 else f"{age} ago"
