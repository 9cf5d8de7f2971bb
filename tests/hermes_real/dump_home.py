"""Write a home that a real Hermes left as text, for tests/hermes/homes: `python dump_home.py HOME FOLDER RELEASE`.

FOLDER gets the rows (state.sql), what lies beside the database, and the doctor's findings (expected.json); its parent
gets the schema of the release. Paths, ports and process numbers are replaced, words that only fill are shortened, and
columns that no check reads are left out.
"""

import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.hermes.doctor.examination import examine
from holdfast.hermes.doctor.finding import Severity

TABLES = ("schema_version", "sessions", "messages", "gateway_routing", "compression_locks")
UNREAD = {"system_prompt", "api_content", "billing_base_url", "billing_provider", "reasoning", "cwd", "git_branch"}
UNREAD |= {"git_repo_root", "model_config", "estimated_cost_usd", "cost_status", "cost_source", "pricing_version"}
LOGGED = re.compile(r"compression|conversation turn|Turn ended|Session split|Session hygiene|finalized")
FILLER = re.compile(r"(?:These are words that fill the history of the conversation\. ?)+(?:[A-Z][a-z ]*(?=\.\.\.))?")
PLACES = (
    (re.compile(r"(?<=compacted into the summary below\.)(?:(?!\\n)[^\n])*"), ""),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:1"),
    (re.compile(r"pid=\d+"), "pid=4999999"),  # larger than a process number can be
    (re.compile(r"tid=\d+"), "tid=1"),
)
NEVER = 2_000_000_000.0  # every lock has expired


def main(home: Path, folder: Path, release: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(f"file:{home / 'state.db'}?mode=ro", uri=True) as db:
        schema = "".join(f"{line};\n" for line in schema_of(db))
        (folder.parent / f"schema_{release.replace('.', '_')}.sql").write_text(schema)
        rows = "".join(f"{line};\n" for table in TABLES for line in inserts(db, table))
        (folder / "state.sql").write_text(clean(rows, home))
    for path in sorted((home / "sessions").glob("*.json")):
        found = json.loads(path.read_text())
        if path.name.startswith("session_"):
            found = {"session_id": found["session_id"], "messages": found["messages"]}
        text = json.dumps(found, indent=1, ensure_ascii=False)
        write(folder / "sessions" / path.name, clean(text, home))
    lines = (home / "logs" / "agent.log").read_text().splitlines()
    write(folder / "logs" / "agent.log", clean("\n".join(line for line in lines if LOGGED.search(line)), home) + "\n")
    found = [
        {"kind": one.kind.code, "certainty": one.certainty.value, "sessions": list(one.sessions)}
        for one in examine(home, NEVER).findings
        if one.severity is not Severity.INFO
    ]
    expected = {"release": release, "findings": found}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def schema_of(db: sqlite3.Connection) -> Iterator[str]:
    """The statements that make the database; the tables behind a search index are made with it."""
    found = db.execute("select name, sql from sqlite_master where sql is not null order by rowid").fetchall()
    virtual = [name for name, sql in found if sql.upper().startswith("CREATE VIRTUAL")]
    behind = {f"{name}_{part}" for name in virtual for part in ("data", "idx", "content", "docsize", "config")}
    yield from (sql for name, sql in found if name not in behind and not name.startswith("sqlite_"))


def inserts(db: sqlite3.Connection, table: str) -> Iterator[str]:
    known = db.execute(f"pragma table_info({table})").fetchall()
    defaults = {row[1]: row[4] for row in known}
    for row in db.execute(f"select * from {table}") if known else ():
        values = dict(zip(defaults, row, strict=True))
        kept = {
            name: literal(value)
            for name, value in values.items()
            if value is not None and name not in UNREAD and literal(value) != defaults[name]
        }
        yield f"insert into {table} ({', '.join(kept)}) values ({', '.join(kept.values())})"


def literal(value: Any) -> str:
    if isinstance(value, float):
        return str(round(value, 3))
    return str(value) if isinstance(value, int) else "'{}'".format(str(value).replace("'", "''"))


def clean(text: str, home: Path) -> str:
    text = FILLER.sub("These are words.", text.replace(str(home), "/home/ada/.hermes"))
    for pattern, fixed in PLACES:
        text = pattern.sub(fixed, text)
    return text


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
