"""The examination as one HTML page: no script, no outside file, nothing that is loaded."""

from collections.abc import Iterator
from html import escape

from holdfast.hermes.doctor.examination import Examination
from holdfast.hermes.doctor.finding import HermesFinding
from holdfast.hermes.doctor.lineage_drawing import draw_lineage
from holdfast.hermes.doctor.report import about_home, headline

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
article{border-left:4px solid #57606a;padding:.2rem 1rem;margin:1.2rem 0}
.error{border-color:#b3261e}.warning{border-color:#9a6700}
h2{margin-top:2.2rem}h3{margin:.2rem 0;font-size:1.05rem}
code,pre{font:13px/1.45 ui-monospace,monospace}
pre{overflow-x:auto;background:#8881;padding:.6rem;white-space:pre-wrap}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.4rem 0}dt{opacity:.7}dd{margin:0}
.drawing{overflow-x:auto;background:#fff;padding:.5rem}
"""


def examination_page(examined: Examination) -> str:
    """The whole page."""
    drawing = draw_lineage(examined.records, examined.findings) if examined.records is not None else ""
    lineage = f'<h2>Lineage</h2><div class="drawing">{drawing}</div>' if drawing else ""
    findings = "".join(_article(one) for one in examined.findings) or "<p>None.</p>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Hermes: what the doctor found</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body><h1>Hermes: what the doctor found</h1>"
        f"<p>{escape(about_home(examined))}</p><p><strong>{escape(headline(examined))}</strong></p>"
        f"{lineage}<h2>Findings</h2>{findings}</body></html>\n"
    )


def _article(one: HermesFinding) -> str:
    span = f"{one.begins} to {one.ends}" if one.ends else one.begins
    facts = [
        ("severity", one.severity.value),
        ("certainty", one.certainty.value),
        ("anomaly", one.anomaly),
        ("time", span),
        ("sessions", ", ".join(one.sessions)),
        ("meaning", one.kind.means),
        ("repair", one.repair),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts if value)
    evidence = "\n".join(_evidence(one))
    shown = f"<pre>{escape(evidence)}</pre>" if evidence else ""
    return (
        f'<article class="{one.severity.value}"><h3>{escape(one.kind.title)} <code>{one.kind.code}</code></h3>'
        f"<p>{escape(one.what)}</p><dl>{listed}</dl>{shown}</article>"
    )


def _evidence(one: HermesFinding) -> Iterator[str]:
    yield from one.evidence.rows
    yield from one.evidence.lines
    yield from one.evidence.files
