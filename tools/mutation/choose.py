"""Which mutations are planted, and which tests are asked about each.

The choice is drawn from a seed over all files, larger files getting more: nothing about the tests enters it. Only
afterwards are the tests looked up that enter the mutated function.
"""

import ast
import json
import random
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import accumulate, islice
from pathlib import Path

from tools.mutation.operators import Finder, Mutation
from tools.mutation.place import ROOT, mutated_files

FILE_MIN = 3  # mutations of the smallest file
FOCUSED = 40  # tests that are asked before all others


def choose(seed: int, count: int) -> list[Mutation]:
    """About `count` mutations, spread over every file by its size."""
    found = every_mutation()
    total = sum(map(len, found.values()))
    chosen: list[Mutation] = []
    for path, mutations in found.items():
        share = max(FILE_MIN, round(count * len(mutations) / total))
        rng = random.Random(f"{seed}/{path.name}")
        shuffled = rng.sample(mutations, len(mutations))
        source = path.read_bytes()
        chosen += islice((one for one in shuffled if one.compiles(source)), share)
    return sorted(chosen, key=lambda one: (one.path, one.start, one.after))


@cache
def every_mutation() -> dict[Path, list[Mutation]]:
    """By file, in the code as it was at the first call."""
    return {path: Finder(path.relative_to(ROOT).as_posix(), path.read_bytes()).find() for path in mutated_files()}


def found_again(lived: Collection[tuple[str, str, str, str, str]]) -> list[Mutation]:
    """The mutations of an earlier run in the code as it is now, wherever their lines have moved to.

    Each is known by its path, operator, scope, text before and text after. What the code no longer has is left out.
    """
    found = [
        one
        for path in mutated_files()
        for one in Finder(path.relative_to(ROOT).as_posix(), path.read_bytes()).find()
        if (one.path, one.operator, one.scope, one.before, one.after) in lived
    ]
    return sorted(found, key=lambda one: (one.path, one.start, one.after))


class Hits:
    """The recorded runs of the suite: which test enters which function, and how long it takes."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = {}
        self._breadth: dict[str, int] = {}  # how many functions a test enters: few for a test of just one thing
        self._tests: dict[str, set[str]] = {}
        for file in sorted(folder.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                self.seconds[record["test"]] = record["seconds"]
                self._breadth[record["test"]] = len(record["hits"])
                for hit in record["hits"]:
                    self._tests.setdefault(hit, set()).add(record["test"])
        self._users = _users_of_constants()

    def tests_of(self, mutation: Mutation) -> list[str]:
        """The tests that enter the mutated function, or a function that uses the mutated constant, or name it.

        Those that enter little else come first: they are quick, and few files have to be loaded for them.
        """
        functions = {f"{mutation.path}::{mutation.scope}", *self._users.get((mutation.path, mutation.scope), ())}
        nested = {name for name in self._tests if any(name.startswith(f"{one}.") for one in functions)}
        tests = set().union(*(self._tests.get(name, set()) for name in functions | nested))
        if mutation.scope.isupper():
            tests |= self._tests_that_say(mutation.scope)
        tests = tests or self._tests_that_import(mutation.path)  # a function that runs only while its module loads
        return sorted(tests, key=lambda test: (self._breadth[test], self.seconds[test], test))

    def _tests_that_import(self, path: str) -> set[str]:
        return self._tests_that_say(path.removeprefix("src/").removesuffix(".py").replace("/", "."))

    def _tests_that_say(self, name: str) -> set[str]:
        said = re.compile(rf"\b{re.escape(name)}\b")
        files = {test.split("::")[0] for test in self.seconds}
        using = {file for file in files if said.search((ROOT / file).read_text(encoding="utf-8"))}
        return {test for test in self.seconds if test.split("::")[0] in using}


def stages(tests: Sequence[str], seconds: Mapping[str, float], budget_s: float) -> list[list[str]]:
    """Some focused tests first, then as many of the others as the budget allows, quick ones first."""
    first = list(tests[:FOCUSED])
    others = sorted(tests[FOCUSED:], key=lambda test: (seconds[test], test))
    spent = list(accumulate(seconds[test] for test in others))
    return [stage for stage in (first, others[: bisect_right(spent, budget_s)]) if stage]


def _users_of_constants() -> dict[tuple[str, str], set[str]]:
    """For each module's constant, the functions that mention its name, in its own module and where it is imported."""
    users: dict[tuple[str, str], set[str]] = {}
    homes = _homes()
    for path in mutated_files():
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_bytes())
        visible = {constant: name for (home, constant) in homes if home == name}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                home = f"src/{node.module.replace('.', '/')}.py"
                visible |= {alias.name: home for alias in node.names if (home, alias.name) in homes}
        for function, inner in _functions(tree):
            used = {one.id for one in ast.walk(inner) if isinstance(one, ast.Name) and one.id in visible}
            for constant in used:
                users.setdefault((visible[constant], constant), set()).add(f"{name}::{function}")
        _through_constants(tree, visible, users)
    return users


def _homes() -> set[tuple[str, str]]:
    found = set()
    for path in mutated_files():
        for statement in ast.parse(path.read_bytes()).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                found.add((path.relative_to(ROOT).as_posix(), statement.targets[0].id))
    return found


def _through_constants(tree: ast.Module, visible: Mapping[str, str], users: dict[tuple[str, str], set[str]]) -> None:
    """A constant that is part of another one is used where that one is."""
    for statement in reversed(tree.body):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            whole = (visible.get(statement.targets[0].id, ""), statement.targets[0].id)
            for part in ast.walk(statement.value):
                if isinstance(part, ast.Name) and part.id in visible:
                    users.setdefault((visible[part.id], part.id), set()).update(users.get(whole, ()))


def _functions(tree: ast.AST, prefix: str = "") -> list[tuple[str, ast.AST]]:
    found: list[tuple[str, ast.AST]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef):
                found.append((name, node))
            found += _functions(node, f"{name}.")
    return found
