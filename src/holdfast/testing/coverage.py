"""Coverage: the verbs of the store and the lines of the loops that histories reach.

A simulator proves only what its histories do, so the campaign measures the first `MEASURED_MAX` histories and reports
what none of them reached.

Verbs: every verb of the store that a node called at least once, alone or as a part of another one (`PARTS`).
Loops: every line inside a function of the modules in `LOOPS`, which act instead of deciding or storing. The
list of what is missing names functions, since line numbers move with every edit; the percentage counts lines, since a
function may be entered and hardly used.

`LEFT_OUT` lists what is left out on purpose, with the reason. It still counts as not reached in the percentages.
"""

import importlib
import inspect
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FrameType
from typing import Any

import holdfast
from holdfast.store.script import Verb
from holdfast.testing.coverage_left_out import LEFT_OUT
from holdfast.testing.crash import CrashPoint

MEASURED_MAX = 200  # histories of a campaign; tracing lines costs about as much as the histories themselves

LOOPS = (  # the modules that act
    "channels.agent",
    "inbox.access_control",
    "inbox.channels",
    "inbox.gateway",
    "inbox.router",
    "kernel.loop",
    "kernel.notifier",
    "kernel.time_zones",
    "memory.delivery_call",
    "memory.dispatcher",
    "memory.forgetter",
    "memory.notes_service",
    "memory.provider",
    "memory.recaller",
    "memory.reindex",
    "outbox.drafter",
    "outbox.reply_sender",
    "outbox.typing_indicator",
    "store.membership",
    "runtime.supervisor",
    "sessions.compressor",
    "sessions.finisher",
    "store.damage",
    "tools.toolbox",
    "turns.agents",
    "turns.approvals",
    "turns.context_cache",
    "turns.context_window",
    "turns.mailbox_processor",
    "turns.model_call",
    "turns.runner",
    "turns.tool_calls",
    "turns.turn_run",
    "turns.worker",
)

# Verbs that workers run only as a part of another verb, whose statements and crash points include theirs.
PARTS = {"claim_work": "claim_mailboxes", "take_step": "append_step", "end_turn": "commit_turn"}

Lines = dict[str, set[int]]  # of each function of the loops, by its name


@dataclass(slots=True)
class Reached:
    """What some histories reached. Two values can be added."""

    histories: int = 0
    verbs: set[str] = field(default_factory=set)
    struck: set[str] = field(default_factory=set)  # verbs at which a call failed, or its node was killed or paused
    lines: Lines = field(default_factory=lambda: defaultdict(set))

    def add(self, other: "Reached") -> None:
        self.histories += other.histories
        self.verbs |= other.verbs
        self.struck |= other.struck
        for function, numbers in other.lines.items():
            self.lines[function] |= numbers

    def came_by(self, passed: Iterable[object], struck: Iterable[CrashPoint] = ()) -> None:
        """Count one history: the verbs among the points that its nodes passed, and those at which a fault struck."""
        known = set(known_verbs())
        self.histories += 1
        verbs = {point.verb for point in passed if isinstance(point, CrashPoint)} & known
        self.verbs |= verbs | {part for whole, part in PARTS.items() if whole in verbs}
        self.struck |= {point.verb for point in struck} & known


@cache
def known_verbs() -> tuple[str, ...]:
    """Every verb of the store: the scripts that a caller may run."""
    modules = [one.name for one in pkgutil.walk_packages(holdfast.__path__, "holdfast.") if one.name.endswith("_sql")]
    found = [member for name in sorted(modules) for member in vars(importlib.import_module(name)).values()]
    return tuple(dict.fromkeys(one.name for one in found if isinstance(one, Verb)))


@cache
def known_lines() -> Mapping[str, frozenset[int]]:
    """The lines of every function of the loops, by `folder.module.name`; nested functions belong to the outer one."""
    return {name: frozenset(_numbers(codes)) for name, codes in _functions().items()}


def _functions() -> dict[str, list[CodeType]]:
    found: dict[str, list[CodeType]] = {}
    for module in _modules():
        source, short = inspect.getsource(module), module.__name__.removeprefix("holdfast.")
        whole = compile(source, module.__file__ or "", "exec", dont_inherit=True)
        for name, code in _named(whole, ""):
            found.setdefault(f"{short}.{name}", []).append(code)
    return found


def _modules() -> list[Any]:
    return [importlib.import_module(f"holdfast.{name}") for name in LOOPS]


def _named(code: CodeType, prefix: str) -> Iterator[tuple[str, CodeType]]:
    """Functions and methods. A class body is a code object too, and is recognised by having no fast locals."""
    for inner in code.co_consts:
        if not isinstance(inner, CodeType) or inner.co_name.startswith("<"):
            continue
        is_function = bool(inner.co_flags & inspect.CO_OPTIMIZED)
        if is_function:
            yield f"{prefix}{inner.co_name}", inner
        else:
            yield from _named(inner, f"{prefix}{inner.co_name}.")


def _numbers(codes: Iterable[CodeType]) -> Iterator[int]:
    for code in codes:
        # The first line is the `def`, which is passed when the generator or coroutine is made.
        yield from (line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno)
        yield from _numbers(inner for inner in code.co_consts if isinstance(inner, CodeType))


@contextmanager
def tracing(reached: Reached) -> Iterator[None]:
    """Record every line of the loops that runs in this thread meanwhile."""
    before = sys.gettrace()
    sys.settrace(_tracer(reached.lines))
    try:
        yield
    finally:
        sys.settrace(before)


def _tracer(lines: Lines) -> Callable[[FrameType, str, Any], Any]:
    """A function is traced until all of its lines were seen, which for most functions is soon.

    Code objects are compared by identity, since hashing one costs more than running most of them.
    """
    wanted = {(_file_of(name), number): name for name, numbers in known_lines().items() for number in numbers}
    found: dict[int, LineTracer] = {}

    def call(frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401
        code = frame.f_code
        known = found.get(id(code))
        if known is None:
            known = found[id(code)] = LineTracer(code, wanted, lines)
        return known if known.left else None

    return call


class LineTracer:
    """Records the lines of one code object. It keeps a reference, so that no other object gets the same id."""

    __slots__ = ("_code", "_lines", "left")

    def __init__(self, code: CodeType, wanted: Mapping[tuple[str, int], str], lines: Lines) -> None:
        numbers = {number for _, _, number in code.co_lines() if number is not None}
        file = code.co_filename
        self.left = {number: wanted[file, number] for number in numbers if (file, number) in wanted}
        self._code = code
        self._lines = lines

    def __call__(self, frame: FrameType, event: str, _argument: object) -> "LineTracer":
        name = self.left.pop(frame.f_lineno, None) if event == "line" else None
        if name is not None:
            self._lines[name].add(frame.f_lineno)
        return self


def _module_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


@cache
def _file_of(name: str) -> str:
    module = sys.modules[f"holdfast.{_module_of(name)}"]
    return module.__file__ or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much was reached, and the names of what was not reached."""

    histories: int
    verbs: int
    verbs_reached: int
    verbs_missing: tuple[str, ...]
    verbs_unstruck: tuple[str, ...]  # reached, but never hit by a fault
    lines: int
    lines_reached: int
    functions_missing: tuple[str, ...]
    by_loop: Mapping[str, tuple[int, int]]  # lines reached and lines, by module

    @property
    def verbs_percent(self) -> float:
        return percent(self.verbs_reached, self.verbs)

    @property
    def loops_percent(self) -> float:
        return percent(self.lines_reached, self.lines)

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Names that were neither reached nor left out with a reason."""
        return tuple(name for name in (*self.verbs_missing, *self.functions_missing) if reason_for(name) is None)


def reason_for(name: str) -> str | None:
    """Why a verb or function is left out: its own reason, or that of its class or module."""
    while name not in LEFT_OUT and "." in name:
        name = name.rpartition(".")[0]
    return LEFT_OUT.get(name)


def percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def coverage_of(reached: Reached) -> Coverage:
    known = known_lines()
    by_loop: dict[str, tuple[int, int]] = {}
    for name, numbers in known.items():
        module = _module_of(name)
        done, whole = by_loop.get(module, (0, 0))
        by_loop[module] = (done + len(reached.lines.get(name, ())), whole + len(numbers))
    return Coverage(
        histories=reached.histories,
        verbs=len(known_verbs()),
        verbs_reached=len(reached.verbs),
        verbs_missing=tuple(f"store.{name}" for name in known_verbs() if name not in reached.verbs),
        verbs_unstruck=tuple(name for name in known_verbs() if name in reached.verbs - reached.struck),
        lines=sum(len(numbers) for numbers in known.values()),
        lines_reached=sum(len(numbers) for numbers in reached.lines.values()),
        functions_missing=tuple(name for name, numbers in known.items() if numbers and not reached.lines.get(name)),
        by_loop=by_loop,
    )


def described(coverage: Coverage) -> dict[str, object]:
    """The coverage as plain values, for JSON."""
    return {
        "histories": coverage.histories,
        "verbs": {
            "percent": coverage.verbs_percent,
            "reached": coverage.verbs_reached,
            "known": coverage.verbs,
            "missing": [_missing(name) for name in coverage.verbs_missing],
            "never_struck": list(coverage.verbs_unstruck),
        },
        "loops": {
            "percent": coverage.loops_percent,
            "lines_reached": coverage.lines_reached,
            "lines": coverage.lines,
            "missing": [_missing(name) for name in coverage.functions_missing],
            "percent_by_loop": {name: percent(*both) for name, both in coverage.by_loop.items()},
        },
    }


def _missing(name: str) -> dict[str, str | None]:
    return {"name": name, "left_out_because": reason_for(name)}
