"""Mutations of one source file: small, typical mistakes, each a replacement of one stretch of text.

Rule 1: a mutation is found from the syntax alone. Nothing here knows which tests exist.
Rule 2: what does not compile is not planted (`compiles`), and what never changes behaviour is left alone: annotations,
        docstrings, decorators, messages of errors, and numbers that only tune (a limit of 400 or 401 characters).
Rule 3: SQL is code. A statement in a string loses a condition, a lock or its order like any other code.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FLIPPED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}
SWAPPED: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.FloorDiv: ast.Mult(),
    ast.Div: ast.Mult(),
}
SQL = re.compile(r"^\s*(select|insert|update|delete|with)\b", re.IGNORECASE)
SQL_CHANGES: tuple[tuple[str, str, str], ...] = (
    ("lock", r"\s*/\*(?:skip )?lock(?:ed)?\*/", ""),
    ("condition", r"\band (?:not )?[\w.]+ (?:=|<>|<|<=|>|>=) (?::\w+|[\w.]+|'\w+')(?= |\n|$|\))", ""),
    ("condition", r"\band [\w.]+ (?:not )?in \([^()]*\)", ""),
    ("condition", r"\band [\w.]+ is (?:not )?null", ""),
    ("null", r"\bis null\b", "is not null"),
    ("null", r"\bis not null\b", "is null"),
    ("compare", r"(?<= )<=(?= )", "<"),
    ("compare", r"(?<= )<(?= )", "<="),
    ("compare", r"(?<= )>=(?= )", ">"),
    ("compare", r"(?<= )>(?= )", ">="),
    ("order", r"\border by ([\w.]+)(?! desc)(?=[ \n,)]|$)", r"order by \1 desc"),
    ("order", r"\border by ([\w.]+) desc", r"order by \1"),
    ("literal", r"'(?:\w+)', (?=')", ""),
    ("arithmetic", r"(?<= )\+ (?=[1:\w])", "- "),
    ("flag", r"= 1\b", "= 0"),
    ("flag", r"= 0\b", "= 1"),
    ("aggregate", r"\bmax\(", "min("),
    ("aggregate", r"\bmin\(", "max("),
    ("distinct", r"\bdistinct ", ""),
)
UNTOUCHED_CALLS = re.compile(r"^(log\.|.*Error$|InvalidInput$|InvariantBroken$|check_|cast$|TypeVar$|NewType$|re\.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One replacement: bytes `start` to `end` of the file become `after`."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str
    operator: str
    scope: str  # the function it stands in, or the module's constant

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.operator}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def compiles(self, source: bytes) -> bool:
        try:
            ast.parse(self.applied(source))
        except SyntaxError:
            return False
        return True


class Finder:
    """All mutations of one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        self._tree = ast.parse(source)
        self._starts = [0]
        for line in source.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def find(self) -> list[Mutation]:
        found: list[Mutation] = []
        for statement in self._tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                found += self._constant(statement)
            else:
                found += self._within(statement, "")
        unique = {(one.start, one.end, one.after): one for one in found if one.before != one.after}
        return sorted(unique.values(), key=lambda one: (one.start, one.after))

    # --- where

    def _constant(self, statement: ast.Assign | ast.AnnAssign) -> Iterator[Mutation]:
        """A constant of the module: only its SQL and its tables of names count."""
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        scope = ast.unparse(target)
        if statement.value is not None:
            for node in ast.walk(statement.value):
                yield from self._sql(node, scope)
                yield from self._members(node, scope)

    def _within(self, node: ast.AST, scope: str) -> Iterator[Mutation]:
        """Every mutation below a node, functions named on the way."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from self._body(node, f"{scope}.{node.name}" if scope else node.name)
        elif isinstance(node, ast.AnnAssign):
            yield from () if node.value is None else self._within(node.value, scope)
        elif not _is_untouched(node):
            for operator in OPERATORS:
                for name, replacement in operator(node):
                    yield self._replace(node, name, replacement, scope)
            yield from self._sql(node, scope)
            for child in ast.iter_child_nodes(node):
                yield from self._within(child, scope)

    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: str) -> Iterator[Mutation]:
        for statement in node.body[1:] if ast.get_docstring(node) else node.body:
            is_field = isinstance(node, ast.ClassDef) and isinstance(statement, ast.Assign | ast.AnnAssign)
            if not is_field:
                yield from self._within(statement, scope)

    # --- what

    def _sql(self, node: ast.AST, scope: str) -> Iterator[Mutation]:
        """Changes of one SQL text, each at one place in it."""
        if not isinstance(node, ast.Constant | ast.JoinedStr):
            return
        first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
        if not (isinstance(first, ast.Constant) and isinstance(first.value, str) and SQL.match(first.value)):
            return
        start, end = self._span(node)
        text = self._source[start:end].decode()
        for name, pattern, after in SQL_CHANGES:
            for match in re.finditer(pattern, text):
                at = start + len(text[: match.start()].encode())
                yield Mutation(
                    path=self._path,
                    line=self._line_of(at),
                    start=at,
                    end=at + len(match.group().encode()),
                    before=match.group(),
                    after=match.expand(after),
                    operator=f"sql-{name}",
                    scope=scope,
                )

    def _members(self, node: ast.AST, scope: str) -> Iterator[Mutation]:
        """A set or frozenset of names loses one of them."""
        if isinstance(node, ast.Set) and len(node.elts) > 1:
            for dropped in range(len(node.elts)):
                kept = [ast.unparse(one) for index, one in enumerate(node.elts) if index != dropped]
                yield self._replace(node, "member", "{" + ", ".join(kept) + "}", scope)

    def _replace(self, node: ast.AST, name: str, after: str, scope: str) -> Mutation:
        start, end = self._span(node)
        before = self._source[start:end].decode()
        line = self._line_of(start)
        return Mutation(
            path=self._path, line=line, start=start, end=end, before=before, after=after, operator=name, scope=scope
        )

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _line_of(self, position: int) -> int:
        return self._source[:position].count(b"\n") + 1


def _is_untouched(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return UNTOUCHED_CALLS.match(ast.unparse(node.func)) is not None
    return isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Global)


Replacements = Iterator[tuple[str, str]]


def compare(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
        flipped = ast.Compare(node.left, [FLIPPED[type(node.ops[0])]], node.comparators)
        yield "compare", f"({ast.unparse(flipped)})"


def boolean(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BoolOp):
        other: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and-or", f"({ast.unparse(ast.BoolOp(other, node.values))})"
        for dropped in range(len(node.values)):
            kept = [value for index, value in enumerate(node.values) if index != dropped]
            rest = kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)
            yield "operand", f"({ast.unparse(rest)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", f"({ast.unparse(node.operand)})"


def arithmetic(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED and not isinstance(node.left, ast.Constant | ast.List):
        yield "arithmetic", f"({ast.unparse(ast.BinOp(node.left, SWAPPED[type(node.op)], node.right))})"


def constant(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Constant) and node.value is True:
        yield "constant", "False"
    elif isinstance(node, ast.Constant) and node.value is False:
        yield "constant", "True"
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value in (0, 1):
        yield "constant", str(node.value + 1)


def condition(node: ast.AST) -> Replacements:
    if isinstance(node, ast.If) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        body = ast.unparse(ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse))
        yield "condition", body.replace("\n", "\n" + " " * node.col_offset)
    if isinstance(node, ast.IfExp):
        yield "condition", f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"


def deletion(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.YieldFrom | ast.Await):
        yield "deleted", "yield from ()" if isinstance(node.value, ast.YieldFrom) else "pass"
    if isinstance(node, ast.AugAssign | ast.Continue | ast.Break):
        yield "deleted", "pass"


def returned(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple | ast.Name | ast.Attribute | ast.Call):
        yield "returned", "return None"


OPERATORS: tuple[Callable[[ast.AST], Replacements], ...] = (
    compare,
    boolean,
    arithmetic,
    constant,
    condition,
    deletion,
    returned,
)
