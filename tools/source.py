"""Reading our own source: what a file imports, which names it uses, what it catches.

Functions from a syntax tree to findings, `line: what`. They know Python and nothing of Holdfast; which
findings are allowed, and where, is said in tests/test_tidy.py.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from fnmatch import translate
from functools import cache
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
UNKNOWN = "~"  # before a name that was not imported: `~open` is the builtin, `~self.loop` somebody's attribute


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


def forget() -> None:
    """Drop all syntax trees: those of the whole repository take 300 MB, which every garbage collection reads."""
    for cached in (parse, nodes, references, _import_statements, _calls_by_name):
        cached.cache_clear()


def at(node: ast.stmt | ast.expr | ast.ExceptHandler, what: str) -> str:
    return f"line {node.lineno}: {what}"


# --- names ---------------------------------------------------------------------------------------


def import_nodes(tree: ast.AST, module: str = "") -> Iterator[tuple[ast.stmt, str]]:
    """Each import statement with each dotted name it brings in.

    `module` is the dotted name of the file itself, which relative imports are counted from.
    """
    for node in _import_statements(tree):
        if isinstance(node, ast.Import):
            yield from ((node, name.name) for name in node.names)
        else:
            parents = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*parents, *filter(None, [node.module])])
            yield from ((node, f"{origin}.{name.name}") for name in node.names)


@cache
def _import_statements(tree: ast.AST) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(node for node in nodes(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def imports(tree: ast.AST, module: str = "") -> set[str]:
    return {dotted for _, dotted in import_nodes(tree, module)}


def bindings(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for: `from time import time as now` binds now to time.time."""
    bound: dict[str, str] = {}
    for node in _import_statements(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                top = name.name.split(".")[0]
                bound[name.asname or top] = name.name if name.asname else top
        else:
            bound |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    return bound


@cache
def references(tree: ast.AST) -> tuple[tuple[ast.expr, str], ...]:
    """Each name and attribute that is read, written out through the imports: `t.time` as `time.time`.

    A name counts when it is passed on, not only when called: `clock=time.monotonic` reads the clock too.
    """
    bound = bindings(tree)
    read = (
        node for node in nodes(tree) if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    )
    return tuple((node, _dotted(node, bound)) for node in read)


def _dotted(node: ast.expr, bound: dict[str, str]) -> str:
    match node:
        case ast.Name(name):
            return bound.get(name, UNKNOWN + name)
        case ast.Attribute(value, name):
            return f"{_dotted(value, bound)}.{name}"
        case _:
            return UNKNOWN


def uses(tree: ast.AST, patterns: Iterable[str], *, but: Iterable[str] = ()) -> list[str]:
    """References that match one of the patterns (`random.*`, `*.create_task`) and none of `but`."""
    wanted, unwanted = _any_of(frozenset(patterns)), _any_of(frozenset(but))
    found = [(node, name) for node, name in references(tree) if wanted.match(name)]
    return [at(node, name) for node, name in found if not unwanted.match(name)]


def like(name: str, patterns: Iterable[str]) -> bool:
    return _any_of(frozenset(patterns)).match(name) is not None


@cache
def _any_of(patterns: frozenset[str]) -> re.Pattern[str]:
    """One expression for all the patterns; for no pattern, one that matches nothing."""
    return re.compile("|".join(map(translate, sorted(patterns))) or "(?!)")


# --- errors --------------------------------------------------------------------------------------


def broad_handlers(tree: ast.AST, broad: set[str]) -> Iterator[ast.ExceptHandler]:
    """Handlers that catch everything: bare, or naming one of `broad`."""
    for node in nodes(tree):
        if isinstance(node, ast.ExceptHandler) and (node.type is None or last_names(node.type) & broad):
            yield node


def last_names(node: ast.expr) -> set[str]:
    """The classes that an except clause or a call's arguments name, without their modules."""
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return {_last_name(kind) for kind in kinds}


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ast.unparse(node).rpartition(".")[2]


def keeps_the_error(handler: ast.ExceptHandler) -> bool:
    """Whether the error, or one made from it, is certain to travel on: the handler ends in `raise`."""
    ways_out = (ast.Return, ast.Break, ast.Continue)
    return isinstance(handler.body[-1], ast.Raise) and not any(isinstance(n, ways_out) for n in ast.walk(handler))


def is_silent(handler: ast.ExceptHandler) -> bool:
    """Whether the handler does nothing at all: `pass`, `continue`, `...` or a string."""
    return all(
        isinstance(step, ast.Pass | ast.Continue)
        or (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
        for step in handler.body
    )


def suppressed(tree: ast.AST, broad: set[str]) -> list[str]:
    """Uses of contextlib.suppress over one of `broad`."""
    return [
        at(call, ast.unparse(call))
        for call in calls(tree, "suppress")
        if set().union(*(last_names(argument) for argument in call.args)) & broad
    ]


def calls(tree: ast.AST, function: str) -> Iterator[ast.Call]:
    """Calls of a function or method of this name, whatever it belongs to."""
    yield from _calls_by_name(tree).get(function, ())


@cache
def _calls_by_name(tree: ast.AST) -> dict[str, list[ast.Call]]:
    found: dict[str, list[ast.Call]] = {}
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            for name in last_names(node.func):
                found.setdefault(name, []).append(node)
    return found


# --- platforms -----------------------------------------------------------------------------------

FEATURE_TESTS = ("sys.platform", "os.name", "hasattr(", "platform.system(")
FEATURE_ERRORS = {"ImportError", "ModuleNotFoundError", "AttributeError", "NotImplementedError"}


def guarded(tree: ast.AST) -> set[ast.AST]:
    """Every node that runs only after a test of the platform, or where its absence is caught."""
    inside: set[ast.AST] = set()
    for node in nodes(tree):
        if _is_feature_test(node):
            inside.update(ast.walk(node))
    return inside


def _is_feature_test(node: ast.AST) -> bool:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            return any(probe in ast.unparse(test) for probe in FEATURE_TESTS)
        case ast.Try(handlers=handlers):
            return any(h.type and last_names(h.type) & FEATURE_ERRORS for h in handlers)
        case _:
            return False


def unguarded(tree: ast.AST, modules: set[str], names: set[str]) -> list[str]:
    """Imports of `modules` and uses of `names` outside a feature test."""
    imported: list[tuple[ast.stmt | ast.expr, str]]
    imported = [(node, name) for node, name in import_nodes(tree) if name.split(".")[0] in modules]
    wanted = _any_of(frozenset(names))
    found = [*imported, *((node, name) for node, name in references(tree) if wanted.match(name))]
    safe = guarded(tree) if found else set()
    return [at(node, name) for node, name in found if node not in safe]


# --- size ----------------------------------------------------------------------------------------


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name, nested ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # an expression holds no function that has a name
        if isinstance(node, Function):
            yield prefix + node.name, node
        inner = f"{prefix}{node.name}." if isinstance(node, Function | ast.ClassDef) else prefix
        yield from functions(node, inner)


def lines(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
