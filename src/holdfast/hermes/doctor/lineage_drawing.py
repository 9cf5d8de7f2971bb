"""The lineage of sessions as an SVG drawing: one row for each session, one column for each generation."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from holdfast.hermes.doctor.finding import HermesFinding, Severity
from holdfast.hermes.doctor.records import ExaminedSession, Records

ROW, COLUMN, WIDTH, HEIGHT = 34, 46, 330, 26
SESSIONS_MAX = 400
COLOURS: Mapping[Severity, str] = {
    Severity.ERROR: "#b3261e",
    Severity.WARNING: "#9a6700",
    Severity.INFO: "#57606a",
}
Position = tuple[int, int]


def draw_lineage(records: Records, findings: Sequence[HermesFinding]) -> str:
    """The drawing of all conversations with a parent, a child or a finding, oldest first."""
    marked = _marks(findings)
    places = _places(records, marked)
    if not places:
        return "<p>No session continues another one, and no finding names a session.</p>"
    boxes = [box for one, at in places.items() for box in _box(records, one, at, marked)]
    lines = [line for one, at in places.items() for line in _line(records, places, one, at)]
    width = max(x for x, _ in places.values()) + WIDTH + 10
    height = max(y for _, y in places.values()) + HEIGHT + 10
    return (
        f'<svg role="img" aria-label="Lineage of sessions" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _marks(findings: Sequence[HermesFinding]) -> dict[str, Severity]:
    """The gravest finding of each session."""
    order = list(Severity)
    marks: dict[str, Severity] = {}
    for one in findings:
        for session in one.sessions:
            marks[session] = min(marks.get(session, one.severity), one.severity, key=order.index)
    return marks


def _places(records: Records, marked: Mapping[str, Severity]) -> dict[str, Position]:
    children: dict[str, list[ExaminedSession]] = {}
    for one in sorted(records.sessions.values(), key=lambda one: one.started_at):
        children.setdefault(one.parent if one.parent and one.parent in records.sessions else "", []).append(one)
    places: dict[str, Position] = {}
    roots = [one for one in children.get("", []) if children.get(one.id) or one.id in marked]
    cyclic = [one for one in records.sessions.values() if one.id in marked]
    for root in (*roots, *cyclic):
        waiting = [(root, 0)]
        while waiting and len(places) < SESSIONS_MAX:
            session, depth = waiting.pop()
            if session.id in places:
                continue
            places[session.id] = (10 + depth * COLUMN, 10 + len(places) * ROW)
            waiting += [(child, depth + 1) for child in reversed(children.get(session.id, []))]
    return places


def _box(records: Records, id: str, at: Position, marked: Mapping[str, Severity]) -> Iterator[str]:
    session = records.sessions[id]
    colour = COLOURS[marked[id]] if id in marked else "#1a7f37"
    fill = "#ffffff" if session.is_live else "#eaeef2"
    state = "live" if session.is_live else f"ended: {session.end_reason or 'unknown'}"
    label = f"{id} · {len(records.said_in(id))} messages · {state}"
    title = f"{session.source} {session.session_key or ''} {session.title or ''}".strip()
    x, y = at
    yield (
        f'<g><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" '
        f'fill="{fill}" stroke="{colour}" stroke-width="1.6"/>'
        f'<text x="{x + 8}" y="{y + 17}" font-size="11" fill="{colour}">{escape(label)}</text></g>'
    )


def _line(records: Records, places: Mapping[str, Position], id: str, at: Position) -> Iterator[str]:
    parent = records.sessions[id].parent
    if parent is None or parent not in places:
        return
    px, py = places[parent]
    x, y = at
    dash = ' stroke-dasharray="4 3"' if records.sessions[id].is_branch else ""
    yield (
        f'<path d="M{px + 14} {py + HEIGHT} V{y + HEIGHT // 2} H{x}" fill="none" stroke="#8c959f" '
        f'stroke-width="1.4"{dash}/>'
    )
