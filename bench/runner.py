"""Running a plan: every measurement in a process of its own, contestants in turn within each repetition.

The order of the contestants is rotated from one repetition to the next. A contestant that this machine lacks, or that
fails, is named in the results.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.postgres import PostgresMissing, Server, server
from bench.section import HERMES, OURS, PEERS, Cell, Contestant, Section
from bench.work import Task

ROOT = Path(__file__).parents[1]
PYTHONS = {PEERS: ".venv-bench/bin/python", HERMES: ".venv-bench-hermes/bin/python"}
PATHS = re.compile(r"(?:/[\w.+-]+){2,}")  # results say nothing of where they were made
PREPARE_S, MEASURE_S = 3_600, 600


class ChildFailed(Exception):
    """A child process ended without figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the environments and the working folder are."""

    pythons: Mapping[str, str]
    folder: Path
    tell: Callable[[str], None]


def pythons() -> dict[str, str]:
    """The interpreter of each environment that exists."""
    found = {OURS: sys.executable}
    for name, path in PYTHONS.items():
        python = Path(os.environ.get(f"BENCH_{name.upper()}", ROOT / path))
        if python.exists():
            found[name] = str(python)
    return found


def call(python: str, argument: str, *, seconds: float) -> dict[str, Any]:
    """Run a child, and return what it wrote. Raises `ChildFailed`."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        command = [python, "-m", "bench.child", str(result), argument]
        # Byte code is kept: a start of some peers would take seconds of compilation without it.
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": ""}
        with log.open("wb") as output:
            child = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=ROOT, env=environment, start_new_session=True
            )
            try:
                child.wait(seconds)
            except BaseException as error:
                os.killpg(child.pid, signal.SIGKILL)  # it may have children
                child.wait()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise ChildFailed(f"it took longer than {seconds:.0f} s") from None
                raise
        if child.returncode or not result.exists():
            lines = log.read_text(errors="replace").strip().splitlines() or ["it printed nothing"]
            line = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            raise ChildFailed(PATHS.sub("...", line)[:300])
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def versions(section: Section, machine: Machine) -> dict[str, str]:
    """The installed version of each peer's package, or the reason that there is none."""
    found = {}
    for package in section.versions:
        environment = HERMES if package.startswith("hermes") else PEERS
        if environment not in machine.pythons:
            found[package] = f"missing: {PYTHONS[environment].partition('/')[0]} could not be made"
            continue
        try:
            answer = call(machine.pythons[environment], f"versions {package}", seconds=60)
            found[package] = answer[package]
        except ChildFailed as error:
            found[package] = f"missing: {error}"
    return found


def run_section(section: Section, machine: Machine, *, quick: bool, repetitions: int) -> dict[str, Any]:
    cells = section.quick_cells if quick else section.cells
    runs: list[Run] = []
    missing: list[str] = []
    try:
        with server() if section.needs_postgres else nullcontext() as postgres:
            for group in [cells] if section.compares_cells else [(cell,) for cell in cells]:
                runs += run_cells(section.name, group, machine, repetitions, postgres)
    except PostgresMissing as error:
        missing.append(f"PostgreSQL: {error}")
    known = versions(section, machine)
    missing += [f"{name}: {version[9:]}" for name, version in known.items() if version.startswith("missing: ")]
    found: dict[str, dict[str, Any]] = {cell.name: {} for cell in cells}
    for run in runs:
        found[run.cell.name][run.contestant.name] = {"samples": run.samples, "failed": run.failed}
    return {"quick": quick, "repetitions": repetitions, "versions": known, "missing": missing, "cells": found}


def run_cells(
    section: str, cells: Sequence[Cell], machine: Machine, repetitions: int, postgres: Server | None
) -> "list[Run]":
    """Prepare every contestant of the cells, then measure all of them in each repetition."""
    with _folder(machine.folder) as folder:
        runs = [Run(cell, one, machine, postgres, folder) for cell in cells for one in cell.contestants]
        for run in runs:
            if run.contestant.environment not in machine.pythons:
                run.failed = f"{PYTHONS[run.contestant.environment].partition('/')[0]} is missing"
            elif run.cell.is_prepared:
                machine.tell(f"{section}: {run.cell.name}: preparing {run.contestant.name}")
                run.prepare()
        for repetition in range(repetitions):
            shift = repetition % len(runs)
            for run in [one for one in runs[shift:] + runs[:shift] if not one.failed]:
                machine.tell(f"{section}: {run.cell.name}: {run.contestant.name}, {repetition + 1} of {repetitions}")
                run.measure(repetition)
    for run in runs:
        if run.failed:
            machine.tell(f"{section}: {run.cell.name}: {run.contestant.name} has no figures: {run.failed}")
    return runs


@dataclass(slots=True)
class Run:
    """One contestant in one cell: its figures, a set per repetition, or the reason that there are none."""

    cell: Cell
    contestant: Contestant
    machine: Machine
    postgres: Server | None
    parent: Path
    samples: list[dict[str, float]] = field(default_factory=list)
    failed: str = ""

    @property
    def _prepared(self) -> Path:
        return self.parent / slug(f"{self.cell.name}-{self.contestant.name}")

    def prepare(self) -> None:
        self._prepared.mkdir()
        self._call("prepare", self._prepared, 0, PREPARE_S)

    def measure(self, repetition: int) -> None:
        more: dict[str, Any] = {}
        if self.postgres is not None:
            database = f"{slug(self.contestant.name)}_{repetition}".replace("-", "_")
            more = {"address": self.postgres.create(database), "port": self.postgres.port, "database": database}
        with self._place() as place:
            figures = self._call("measure", place, repetition, MEASURE_S, **more)
        if not self.failed:
            self.samples.append(figures)

    def _call(self, step: str, place: Path, repetition: int, seconds: float, **more: Any) -> dict[str, float]:  # noqa: ANN401
        text = argument(self.cell, self.contestant, step, place, repetition, **more)
        try:
            return call(self.machine.pythons[self.contestant.environment], text, seconds=seconds)
        except ChildFailed as error:
            self.failed = str(error)
            return {}

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """The prepared folder, a copy of it, or an empty one."""
        if self.cell.is_prepared and not self.cell.is_copied:
            yield self._prepared
            return
        with _folder(self.parent) as place:
            if self.cell.is_prepared:
                shutil.copytree(self._prepared, place, dirs_exist_ok=True)
            yield place


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def argument(cell: Cell, one: Contestant, step: str, folder: Path, repetition: int, **more: Any) -> str:  # noqa: ANN401
    options = {**cell.load.options, **one.options, **more}
    task = Task(
        contestant=one.target,
        step=step,
        folder=folder,
        repetition=repetition,
        load=replace(cell.load, options=options),
    )
    return json.dumps({**asdict(task), "folder": str(folder)})


def slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
