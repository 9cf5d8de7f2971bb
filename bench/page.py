"""docs/explanation/performance.md, made from the results. A test compares the page with them."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from bench.figures import FIGURES, Spread, number, ratio, spread
from bench.goals import goals
from bench.plan import SECTIONS
from bench.section import Cell, Section

QUICK = (
    "> **A quick run, not a result.** These figures come from `make bench ARGS=--quick`: one short repetition of\n"
    "> small sizes. They show that the benchmark works, and nothing else."
)
NOT_MEASURED = {"failed": "it was not part of that run"}


def page(results: Mapping[str, Any]) -> str:
    return "\n".join(_lines(results)).rstrip() + "\n"


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    sections = results["sections"]
    yield "<!-- Written by `make bench` from bench/results/performance.json. Run it again instead of editing. -->"
    yield "\n# Performance\n"
    if any(found["quick"] for found in sections.values()):
        yield f"{QUICK}\n"
    yield wrapped(
        "Holdfast beside other runtimes that keep conversations, in one run of `make bench`. Every measurement is a "
        "process of its own. Contestants alternate within each repetition, so that a slow minute of the machine meets "
        "all of them. A cell shows the median of the repetitions and, in brackets, the smallest and the largest. CPU "
        "is user and system time of the process and its children, per unit of work. Ratios are taken within a "
        "repetition. Absolute figures hold for one machine; compare ratios."
    )
    yield f"\nMachine: {results['machine']}."
    if missing := sorted({one for found in sections.values() for one in found["missing"]}):
        yield "\nMissing on this machine, and therefore not measured:\n"
        yield from (f"- {one}" for one in missing)
    yield "\n![Turns, messages and jobs per second, on a logarithmic scale](performance.svg)\n"
    yield from _goals(sections)
    described: set[str] = set()
    for section in SECTIONS:
        if section.name in sections:
            yield from _section(section, sections[section.name], described)


def _goals(sections: Mapping[str, Any]) -> Iterator[str]:
    """The goals of the sections that were measured in full."""
    full = {name: section for name, section in sections.items() if not section["quick"]}
    rows = []
    for goal in goals():
        if (found := goal.measured(full)) is not None:
            unit = " x" if goal.against else f" {goal.unit}".rstrip()
            sign = "≥" if goal.is_floor else "≤"
            bounds = " | ".join(f"{sign} {number(bound)}{unit}" if bound is not None else "" for bound in goal.bounds)
            rows.append(f"| {goal.text} | {bounds} | {text(found)}{unit} | {goal.verdict(found)} |")
    if rows:
        yield "## Goals\n"
        yield "| goal | gate | stretch | measured | |"
        yield "|---|---|---|---|---|"
        yield from rows
        yield ""


def _section(section: Section, found: Mapping[str, Any], described: set[str]) -> Iterator[str]:
    """One section. A contestant is described where it appears first."""
    yield f"## {section.title}\n"
    yield f"{wrapped(section.work)}\n"
    cells = section.quick_cells if found["quick"] else section.cells
    new = {one.name: one.does for cell in cells for one in cell.contestants if one.does and one.name not in described}
    if new:
        yield from (wrapped(f"- **{name}**: {does}.", indent="  ") for name, does in new.items())
        yield ""
        described.update(new)
    versions = [f"{name} {version}" for name, version in found["versions"].items() if not version.startswith("missing")]
    said = f"{found['repetitions']} repetition{'s' if found['repetitions'] != 1 else ''}"
    if found["quick"]:
        said = f"Quick run, {said}"
    ran = f"Run on {found['date']}, load of the machine before it {found['load']}"
    joined = "; ".join([said, *versions])
    yield wrapped(f"{joined}. {ran}.") + "\n"
    yield from _table(section, cells, found["cells"])


def _table(section: Section, cells: tuple[Cell, ...], found: Mapping[str, Any]) -> Iterator[str]:
    shown = [cell for cell in cells if cell.name in found]
    figures = [
        figure
        for figure in section.figures
        if any(spread(found, cell.name, one.name, figure) for cell in shown for one in cell.contestants)
    ]
    beside = any(len(cell.contestants) > 1 for cell in shown)
    head = ["", *(["contestant"] if beside else []), *(FIGURES[figure] for figure in figures)]
    if beside:
        head.append(f"{shown[0].contestants[0].name} against it")
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for cell in shown:
        first = cell.contestants[0].name
        for one in cell.contestants:
            row = [cell.name if one.name == first or not beside else ""]
            row += [one.name] if beside else []
            row += [text(spread(found, cell.name, one.name, figure)) for figure in figures]
            if beside:
                over, under = (cell.name, first), (cell.name, one.name)
                compared = ratio(found, section.figures[0], over, under) if one.name != first else None
                row.append(f"{text(compared)} x" if compared else "")
            if failed := found[cell.name].get(one.name, NOT_MEASURED)["failed"]:
                row[-1] = f"no figures: {plain(failed)}"
            yield f"| {' | '.join(row)} |"
    yield ""


def wrapped(said: str, indent: str = "") -> str:
    return textwrap.fill(said, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def plain(said: str) -> str:
    """Text that cannot break a table or a link."""
    return "".join(" " if letter in "|[]<>`\n" else letter for letter in said)


def text(found: Spread | None) -> str:
    if found is None:
        return ""
    if found.least == found.most:
        return number(found.median)
    return f"{number(found.median)} ({number(found.least)}-{number(found.most)})"
