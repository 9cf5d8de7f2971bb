"""`make bench`: measures Holdfast beside its peers and writes the results, the page and the chart.

make bench                                   # everything: an hour or two on quiet cores, 20 GB of disk
make bench ARGS="--quick"                    # everything, small: about two minutes; nothing is written
make bench ARGS="--only e2e --only append"   # some sections; the results of the others are kept
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.chart import chart
from bench.page import page
from bench.plan import REPETITIONS, SECTIONS, chosen
from bench.runner import ROOT, Machine, pythons, run_section

RESULTS = ROOT / "bench" / "results" / "performance.json"
PAGE = ROOT / "docs" / "explanation" / "performance.md"
CHART = ROOT / "docs" / "explanation" / "performance.svg"


def machine_text() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    repetitions = options.repetitions or (1 if options.quick else REPETITIONS)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=options.folder) as folder:
        machine = Machine(pythons=pythons(), folder=Path(folder), tell=tell)
        for section in chosen(options.only):
            began, load = datetime.now(UTC), os.getloadavg()[0]
            made = run_section(section, machine, quick=options.quick, repetitions=repetitions)
            found[section.name] = {"date": began.date().isoformat(), "load": round(load, 2), **made}
            if not options.quick or options.output:
                write(options.output or RESULTS, found)  # what a long run has measured is kept
    return {"machine": machine_text(), "sections": found}


def write(path: Path, sections: dict[str, Any]) -> None:
    """Add the sections to the results that are there."""
    known = json.loads(path.read_text())["sections"] if path.exists() else {}
    names = [section.name for section in SECTIONS]
    merged = {name: {**known, **sections}[name] for name in names if name in {**known, **sections}}
    path.write_text(json.dumps({"machine": machine_text(), "sections": rounded(merged)}, indent=1) + "\n")


def rounded(found: Any) -> Any:  # noqa: ANN401 - JSON values
    """Figures with five digits: more are noise."""
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return float(f"{found:.5g}") if isinstance(found, float) else found


def write_page() -> None:
    found = json.loads(RESULTS.read_text())
    PAGE.write_text(page(found))
    CHART.write_text(chart(found))


def tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [section.name for section in SECTIONS]
    parser.add_argument("--only", action="append", default=[], choices=names, help="this section; may be repeated")
    parser.add_argument("--quick", action="store_true", help="one short repetition of small sizes; nothing is written")
    parser.add_argument("--repetitions", type=int, help=f"{REPETITIONS} unless --quick")
    parser.add_argument("--folder", type=Path, help="where stores are made: a folder on the disk to measure")
    parser.add_argument(
        "--output", type=Path, help="write the results here, those of a quick run too, and not the page"
    )
    parser.add_argument("--page", action="store_true", help="only write the page and the chart from the results")
    options = parser.parse_args()
    if not options.page:
        found = measure(options)
        print(page(found))
    if options.page or not (options.quick or options.output):
        write_page()


if __name__ == "__main__":
    main()
