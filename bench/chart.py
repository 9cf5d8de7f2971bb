"""docs/explanation/performance.svg: bars per contestant on a logarithmic scale, with the spread as a line."""

import math
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

from bench.figures import Spread, number, spread
from bench.plan import SECTIONS

CHARTED = {"append": "turns/s", "e2e": "messages/s", "jobs": "jobs/s"}
WIDTH, LEFT, RIGHT, ROW, GAP, TOP = 900, 260, 90, 16, 22, 36
OURS, THEIRS, LINE, INK = "#1f5fa8", "#b8b8b8", "#333333", "#222222"


def chart(results: Mapping[str, Any]) -> str:
    bars = list(_bars(results["sections"]))
    values = [bar for _, _, bar in bars if bar is not None]
    low = math.floor(math.log10(min((bar.least for bar in values), default=1)))
    high = math.ceil(math.log10(max((bar.most for bar in values), default=10)))

    def x(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / max(1, high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    body, y = [], TOP
    for heading, name, bar in bars:
        if heading:
            y += GAP
            body.append(_text(8, y, heading, weight="bold"))
            y += ROW
        body.append(_text(LEFT - 8, y, name, anchor="end"))
        if bar is None:
            body.append(_text(LEFT + 4, y, "no figures"))
        else:
            body += _bar(bar, name, x, y)
        y += ROW
    axis = [_tick(x(10.0**power), power, y) for power in range(low, high + 1)]
    title = "Per second, median and spread, logarithmic scale"
    if any(found["quick"] for found in results["sections"].values()):
        title += " (a quick run, not a result)"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" font-family="sans-serif">'
    ground = f'<rect width="{WIDTH}" height="{y + 10}" fill="#ffffff"/>'
    return "\n".join([head, ground, *axis, _text(8, 18, title, weight="bold"), *body, "</svg>"]) + "\n"


def _bars(sections: Mapping[str, Any]) -> Iterator[tuple[str, str, Spread | None]]:
    """(heading of a cell or nothing, contestant, turns per second)."""
    for section in SECTIONS:
        if section.name not in CHARTED or section.name not in sections:
            continue
        found = sections[section.name]
        for cell in section.quick_cells if found["quick"] else section.cells:
            heading = f"{section.title}: {cell.name} ({CHARTED[section.name]})"
            for one in cell.contestants:
                yield heading, one.name, spread(found["cells"], cell.name, one.name, "per_s")
                heading = ""


def _bar(bar: Spread, name: str, x: Any, y: int) -> list[str]:  # noqa: ANN401 - a function
    colour = OURS if name.startswith("Holdfast") else THEIRS
    start, end, middle = LEFT, x(bar.median), y - 4
    return [
        f'<rect x="{start}" y="{y - 10}" width="{end - start:.1f}" height="12" fill="{colour}"/>',
        f'<line x1="{x(bar.least):.1f}" x2="{x(bar.most):.1f}" y1="{middle}" y2="{middle}" stroke="{LINE}"/>',
        _text(max(end, x(bar.most)) + 5, y, number(bar.median)),
    ]


def _tick(x: float, power: int, bottom: int) -> str:
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#e5e5e5"/>'
    return line + _text(x, TOP - 2, number(10.0**power), anchor="middle", size=10)


def _text(x: float, y: float, said: str, *, anchor: str = "start", weight: str = "normal", size: int = 12) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{INK}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(said)}</text>'
