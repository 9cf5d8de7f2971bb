"""Homes that real releases of Hermes left, kept as text in tests/hermes/homes and made again from it.

tests/hermes_real makes such homes anew; the suites that use these need no Hermes. tests/hermes_real/dump_home.py wrote
the files.
"""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

HOMES = Path(__file__).with_name("homes")
NAMES = sorted(path.name for path in HOMES.iterdir() if path.is_dir())
NOW = 2_000_000_000.0  # every lock has expired


def expected(name: str) -> dict[str, Any]:
    """The release of the home, and the findings of the doctor."""
    found: dict[str, Any] = json.loads((HOMES / name / "expected.json").read_text(encoding="utf-8"))
    return found


def restore_home(name: str, home: Path) -> Path:
    """Make the home of this name; its rows are in the write-ahead log until it is closed."""
    shutil.copytree(HOMES / name, home)
    schema = f"schema_{expected(name)['release'].replace('.', '_')}.sql"
    db = sqlite3.connect(home / "state.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    for script in (HOMES / schema, home / "state.sql"):
        db.executescript(f"begin; {script.read_text(encoding='utf-8')} commit;")
    db.close()
    return home
