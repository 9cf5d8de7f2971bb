"""The promise: a person reads times in their own zone, with their age; a program gets milliseconds; an empty list says
so, and a narrow terminal shows every value.
"""

import ast
import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.cli.output import TextTable, print_table
from holdfast.cli.times import local_time, parse_time, shown_in, time_and_age
from holdfast.kernel.errors import InvalidInput
from holdfast.monitor.durations import ago
from tests.cli.test_cli import here, listed_commands

NOON = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
WINTER, SUMMER = 1_768_478_400_000, 1_784_116_800_000  # 2026-01-15 and 2026-07-15, 12:00 UTC


@pytest.fixture
def berlin(monkeypatch):
    if not hasattr(time, "tzset"):
        pytest.skip("the zone of a process can be set on Unix only")
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_time_has_the_zone_that_was_in_force_then(berlin):
    assert local_time(WINTER) == "2026-01-15 13:00:00 CET"
    assert local_time(SUMMER) == "2026-07-15 14:00:00 CEST"
    with shown_in(utc=True):
        assert local_time(SUMMER) == "2026-07-15 12:00:00 UTC"
    assert local_time(SUMMER) == "2026-07-15 14:00:00 CEST"


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5_000, "in 5 s"),
        (0, "0 s ago"),
        (59_999, "59 s ago"),
        (206_000, "3 min ago"),
        (7_199_999, "119 min ago"),
        (7_200_000, "2 h ago"),
        (172_799_999, "47 h ago"),
        (-172_800_000, "in 2 days"),
    ],
)
def test_an_age_has_one_unit(ms, words):
    assert ago(ms) == words


def test_a_time_says_how_long_ago_it_was():
    assert re.fullmatch(r"2023-11-14 22:13:20 UTC, \d+ days ago", _in_utc(NOON))


def _in_utc(instant):
    with shown_in(utc=True):
        return time_and_age(instant)


def test_times_are_read_as_they_are_shown(berlin):
    assert parse_time("2026-01-15 13:00", option="--since") == WINTER
    assert parse_time("2026-07-15T14:00:00", option="--since") == SUMMER
    assert parse_time("2026-07-15T12:00:00+00:00", option="--since") == SUMMER
    with shown_in(utc=True):
        assert parse_time("2026-07-15 12:00", option="--since") == SUMMER
    now = int(time.time() * 1000)
    for text, ms in (("30m", 1_800_000), ("2h", 7_200_000), ("7d", 604_800_000), ("3 min ago", 180_000)):
        assert 0 <= now + 60_000 - (parse_time(text, option="--since") + ms) < 120_000


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "9" * 30 + "d", "-3h"])
def test_what_is_no_time_is_refused_by_the_name_of_its_option(text):
    with pytest.raises(InvalidInput, match=f"--since '{text[:40]}': use 30m"):
        parse_time(text, option="--since")


def test_a_command_prints_local_times_and_with_utc_those_of_utc(tmp_path, berlin):
    here("send", "hello", "--data", tmp_path)
    here("token", "new", "--scope", "read", "--data", tmp_path)
    local, utc = (here("token", "list", "--data", tmp_path, *more).stdout for more in ((), ("--utc",)))
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d CES?T, \d+ s ago", local), local
    assert re.search(rf"{datetime.now(UTC):%Y}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+ s ago", utc), utc
    made = json.loads(here("token", "list", "--data", tmp_path, "--json").stdout)["tokens"][0]["made_at"]
    assert abs(time.time() * 1000 - made) < 600_000


CLI = Path(cli.__file__).parent
PRINTS_TIMES = {"when", "zone", "local_time", "time_and_age"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def names_in(node: ast.AST) -> set[str]:
    """Names, and those of modules that are imported as a whole (`views.history_table`)."""
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    attributes = [one for one in ast.walk(node) if isinstance(one, ast.Attribute)]
    return used | {one.attr for one in attributes if isinstance(one.value, ast.Name) and one.value.id == "views"}


def definitions(file: Path) -> dict[str, ast.AST]:
    return {one.name: one for one in ast.parse(file.read_text()).body if isinstance(one, FUNCTIONS)}


def printing(found: dict[str, ast.AST], known: set[str]) -> set[str]:
    """The definitions of a module that print times, themselves or through others."""
    names, before = set(known), set[str]()
    while names != before:
        before = set(names)
        names |= {name for name, node in found.items() if names_in(node) & names}
    return names


def test_every_command_that_prints_times_can_print_them_in_utc():
    texts = [file for file in CLI.glob("*.py") if file.stem.endswith(("_text", "_views"))]
    known = set(PRINTS_TIMES).union(*(printing(definitions(file), PRINTS_TIMES) for file in texts))
    found, missing = 0, []
    for file in CLI.glob("*.py"):
        there = definitions(file)
        for name in printing(there, known) & there.keys():
            node = there[name]
            makers = [ast.unparse(one) for one in getattr(node, "decorator_list", [])]
            made = [one for one in makers if one.startswith(("visitor(", "command("))]
            found += len(made)
            missing += [f"{file.stem}.{name}" for one in made if "times=True" not in one]
    assert (found > 20, missing) == (True, [])
    shown = {name for name, one in listed_commands().items() if "--utc" in _options(one)}
    assert {"trace", "messages", "sessions", "show", "replies", "deliveries", "channels", "tools", "pairs"} <= shown
    assert shown.isdisjoint({"init", "up", "version", "chat", "send", "attachment", "context"})


def _options(command):
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize(
    "words",
    ["sessions", "deliveries", "replies", "extractions", "approvals", "pairs", "links", "audit actions"],
)
def test_an_empty_list_says_none(tmp_path, words):
    here("send", "hello", "--data", tmp_path)
    done = here(*words.split(), "--data", tmp_path)
    assert (done.returncode, done.stdout.startswith("none")) == (0, True), done.stdout


def test_a_row_that_a_narrow_terminal_cannot_hold_is_printed_line_by_line(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    rows = [
        ("msg_01k5zy", "2026-11-19 18:02:07 CET, 3 min ago", "ada", "where is order B-1077?" * 2),
        ("b", "", "c", ""),
    ]
    print_table(TextTable(("message", "accepted", "sender", "text"), rows))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "message  msg_01k5zy",
        "accepted 2026-11-19 18:02:07 CET, 3 min",
        "         ago",
        "sender   ada",
        "text     where is order B-1077?where is",
        "         order B-1077?",
        "",
        "message  b",
        "sender   c",
    ]
    assert max(map(len, lines)) <= 40
    assert os.environ["COLUMNS"] == "40"
