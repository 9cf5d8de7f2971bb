"""A pytest plugin that records which functions of the mutated code each test enters, and how long the test took.

    HOLDFAST_HITS=folder pytest -p tools.mutation.hits

Every process writes its own file into the folder, one JSON object per line. The functions report themselves: their
modules are compiled with one more statement at the top of each function.
"""

import ast
import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from tools.mutation.place import ROOT, is_mutated

RECORDER = "__holdfast_hit__"
_current: set[str] = set()


def _hit(where: str) -> None:
    _current.add(where)


class _Marking(ast.NodeTransformer):
    """One call of the recorder at the top of each function, with the function's full name."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._mark(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._mark(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        return node

    def _mark(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._names.append(node.name)
        self.generic_visit(node)
        where = f"{self._path}::{'.'.join(self._names)}"
        call = ast.parse(f"__import__('builtins').{RECORDER}({where!r})").body[0]
        position = 1 if ast.get_docstring(node) is not None else 0
        node.body.insert(position, ast.copy_location(call, node))
        self._names.pop()
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        name = Path(path).relative_to(ROOT).as_posix()
        tree = _Marking(name).visit(ast.parse(Path(path).read_bytes()))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = ROOT / "src" / f"{fullname.replace('.', '/')}.py"
        if not file.is_file() or not is_mutated(file):
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file)))


# At import, before any conftest can import what is to be marked.
setattr(builtins, RECORDER, _hit)
sys.meta_path.insert(0, _Finder())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _current  # noqa: PLW0603  one test at a time runs in a process
    _current = set()
    _times[item.nodeid] = 0.0
    yield
    line = {"test": item.nodeid, "seconds": round(_times.pop(item.nodeid), 3), "hits": sorted(_current)}
    folder = Path(os.environ["HOLDFAST_HITS"])
    with (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


_times: dict[str, float] = {}


def pytest_runtest_logreport(report: Any) -> None:  # noqa: ANN401
    if report.nodeid in _times:
        _times[report.nodeid] += report.duration
