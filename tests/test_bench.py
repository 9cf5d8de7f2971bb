"""`make bench` measures what its plan says, names what it could not measure, and its page is made from its results.

No figure is judged here: a benchmark is not a test.
"""

import ast
import asyncio
import json
import sys
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.__main__ import CHART, PAGE, RESULTS, write
from bench.chart import chart
from bench.conversation_plan import APPEND
from bench.figures import Goal, Spread, ratio, spread
from bench.goals import goals
from bench.page import page
from bench.plan import REPETITIONS, SECTIONS, chosen
from bench.postgres import Trips, counting
from bench.runner import Machine, run_cells, run_section
from bench.section import OURS, PEERS, Cell, Contestant
from bench.work import Load, first_names, schedule

BENCH = Path(__file__).parents[1] / "bench"
MODULES = [path for path in sorted(BENCH.rglob("*.py")) if path.parent.name != "peers"]
CELLS = [cell for section in SECTIONS for cell in (*section.cells, *section.quick_cells)]
CONTESTANTS = {one.target: one for cell in CELLS for one in cell.contestants}


def module_of(path):
    return ".".join(("bench", *path.relative_to(BENCH).with_suffix("").parts)).removesuffix(".__init__")


# --- the plan ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODULES, ids=module_of)
def test_a_module_is_importable_without_the_peers(path):
    import_module(module_of(path))
    imported = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [node for node in imported if "bench.peers" in ast.unparse(node)]


@pytest.mark.parametrize("target", CONTESTANTS)
def test_the_code_of_a_contestant_exists(target):
    module, _, name = target.partition(":")
    tree = ast.parse((BENCH.parent / f"{module.replace('.', '/')}.py").read_text())
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef)]
    assert name in defined


def test_a_full_run_has_five_repetitions():
    assert REPETITIONS >= 5


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_a_quick_run_has_the_contestants_of_a_full_one(section):
    full, quick = ({one for cell in cells for one in names(cell)} for cells in (section.cells, section.quick_cells))
    assert full == quick


def names(cell):
    return [one.name for one in cell.contestants]


def test_a_section_is_chosen_by_name():
    assert [section.name for section in chosen(["e2e", "append"])] == ["append", "e2e"]
    assert chosen([]) == SECTIONS


def test_a_goal_is_about_something_that_a_full_run_measures():
    measured = {
        (section.name, cell.name, one.name, figure)
        for section in SECTIONS
        for cell in section.cells
        for one in cell.contestants
        for figure in section.figures
    }
    for goal in goals():
        for which in filter(None, (goal.of, goal.against)):
            assert (goal.section, *which, goal.figure) in measured, goal.text


# --- the drive -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("conversations", "at_once", "history"), [(1, 1, 0), (5, 1, 100), (64, 64, 0), (100, 64, 9)])
def test_two_workers_never_share_a_conversation(conversations, at_once, history):
    load = Load(conversations=conversations, at_once=at_once, history=history)
    used = [{schedule(load, "0", worker)(turn) for turn in range(200)} for worker in range(at_once)]
    assert sum(len(one) for one in used) == len(set().union(*used))


def test_a_conversation_without_history_is_replaced_after_some_turns_and_in_each_repetition():
    load = Load(turns_each=10)
    place = schedule(load, "0", 0)
    assert [len({place(turn) for turn in range(start, start + 10)}) for start in (0, 10, 20)] == [1, 1, 1]
    assert len({place(turn) for turn in range(30)}) == 3
    assert schedule(load, "1", 0)(0) != place(0)


def test_one_worker_stays_in_a_prepared_conversation_before_it_takes_the_next():
    place = schedule(Load(history=100, conversations=3, turns_each=4), "0", 0)
    used = [place(turn) for turn in range(12)]
    assert used == ["s0"] * 4 + ["s1"] * 4 + ["s2"] * 4


@pytest.mark.parametrize("load", [Load(), Load(conversations=100, at_once=64), Load(history=10, conversations=7)])
def test_the_first_conversations_are_met_before_they_are_measured(load):
    met = first_names(load, "0")
    assert len(met) == len(set(met)) == load.conversations
    assert {schedule(load, "0", worker)(0) for worker in range(load.at_once)} <= set(met)


# --- the run -------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path):
    return Machine(pythons={OURS: sys.executable}, folder=tmp_path, tell=lambda _: None)


def test_holdfast_is_measured_in_a_process_of_its_own(machine):
    cell = Cell(name="small", load=Load(history=10, seconds=0.05), contestants=APPEND[:1], is_prepared=True)
    (run,) = run_cells("append", [cell], machine, 1, None)
    assert run.failed == ""
    assert set(run.samples[0]) >= {"per_s", "cpu_ms", "p50_ms", "p99_ms"}
    assert not list(machine.folder.iterdir())


def test_a_peer_whose_environment_is_missing_is_named(machine):
    section = replace(SECTIONS[0], quick_cells=(Cell(name="small", load=Load(), contestants=APPEND[2:3]),))
    found = run_section(section, machine, quick=True, repetitions=1)
    assert APPEND[2].environment == PEERS
    assert found["cells"]["small"][APPEND[2].name] == {"samples": [], "failed": ".venv-bench is missing"}
    assert "openai-agents: .venv-bench could not be made" in found["missing"]
    shown = page({"machine": "a machine", "sections": {section.name: {"date": "2026-01-01", "load": 0, **found}}})
    assert "- openai-agents: .venv-bench could not be made" in shown


def test_a_contestant_that_fails_is_named_and_the_others_are_measured(machine):
    broken = Contestant(name="broken", target="bench.work:nothing")
    cell = Cell(name="small", load=Load(seconds=0.05), contestants=(broken, APPEND[0]))
    first, second = run_cells("append", [cell], machine, 1, None)
    assert "has no attribute 'nothing'" in first.failed
    assert second.samples


async def test_the_proxy_counts_how_often_a_client_waits():
    async def echo(reader, writer):
        while line := await reader.readline():
            writer.write(line)
        writer.close()
        await writer.wait_closed()

    trips = Trips()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, counting(server.sockets[0].getsockname()[1], trips) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for said in (b"one\n", b"two\nthree\n"):
            writer.write(said)
            for line in said.splitlines(keepends=True):
                assert await reader.readline() == line
        writer.close()
        await writer.wait_closed()
    assert trips.count == 2


# --- the figures ---------------------------------------------------------------------------------


def sampled(*values):
    return {"samples": [{"per_s": value} for value in values], "failed": ""}


def test_a_figure_has_its_median_and_its_spread():
    assert spread({"c": {"us": sampled(3, 1, 2)}}, "c", "us", "per_s") == Spread(2, 1, 3)
    assert spread({"c": {"us": sampled()}}, "c", "us", "per_s") is None


def test_a_ratio_is_taken_within_a_repetition():
    cells = {"c": {"us": sampled(10, 20, 40), "them": sampled(5, 20, 10)}}
    assert ratio(cells, "per_s", ("c", "us"), ("c", "them")) == Spread(2, 1, 4)


@pytest.mark.parametrize(("value", "verdict"), [(0.9, "missed"), (1.5, "met"), (3, "stretch")])
def test_a_goal_is_missed_met_or_exceeded(value, verdict):
    goal = Goal(text="", section="s", figure="per_s", of=("c", "us"), gate=1, stretch=2, is_floor=True)
    assert goal.verdict(Spread(value, value, value)) == verdict


def test_a_goal_that_is_a_ceiling_needs_no_stretch():
    goal = Goal(text="", section="s", figure="cpu_ms", of=("c", "us"), gate=3)
    assert [goal.verdict(Spread(value, value, value)) for value in (2.5, 3.5)] == ["met", "missed"]


# --- the results ---------------------------------------------------------------------------------


def test_the_page_and_the_chart_are_those_of_the_results():
    results = json.loads(RESULTS.read_text())
    assert PAGE.read_text() == page(results)
    assert CHART.read_text() == chart(results)


COLOURS = {"#1f5fa8", "#b8b8b8"}


def test_the_chart_is_well_formed_and_its_rows_do_not_overlap():
    root = ElementTree.fromstring(chart(json.loads(RESULTS.read_text())))
    bars = [(float(one.attrib["y"]), float(one.attrib["height"])) for one in root.iter() if one.get("fill") in COLOURS]
    assert bars
    assert all(upper + height <= lower for (upper, height), (lower, _) in pairwise(bars))


def test_a_quick_run_is_marked_on_the_page_and_in_the_chart():
    results = json.loads(RESULTS.read_text())
    for section in results["sections"].values():
        section["quick"] = False
    assert "not a result" not in page(results) + chart(results)
    assert "## Goals" in page(results)
    for section in results["sections"].values():
        section["quick"] = True
    assert "## Goals" not in page(results)
    assert "not a result" in page(results)
    assert "not a result" in chart(results)


def test_one_section_can_be_measured_again_without_losing_the_others(tmp_path):
    path = tmp_path / "results.json"
    write(path, {"e2e": {"load": 1.234567}, "append": {"load": 1.0}})
    write(path, {"e2e": {"load": 2.0}})
    found = json.loads(path.read_text())["sections"]
    assert list(found.items()) == [("append", {"load": 1.0}), ("e2e", {"load": 2.0})]
