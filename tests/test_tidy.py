"""The architecture as tests: what any file under src/holdfast may import, call and catch.

An exception to a rule is an entry in a table here, with its reason; an entry that its file no longer needs
fails as well. Paths in the tables are relative to src/holdfast. The last section breaks the rules
about calls, catches and imports on purpose. How source is read is in tools/source.py.

Rules: D34, D35, D42.
"""

import ast
import gc
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tools import source
from tools.tree import SUBJECTS, is_pure

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "holdfast"
FILES = sorted(SRC.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.fixture(scope="module", autouse=True)
def trees():
    """The syntax trees are shared by the tests of this module and dropped at its end.

    They hold no cycles, so until then the garbage collector would read them all again and again and find nothing.
    """
    gc.disable()
    yield
    source.forget()
    gc.enable()


def name_of(path: Path) -> str:
    return path.relative_to(SRC if path.is_relative_to(SRC) else ROOT).as_posix()


def per_file(files: list[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """One test over all of the files, which names every file that breaks the rule."""

    def over(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            assert {name_of(path): why for path in files if (why := complaint(check, path))} == {}

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return over


def complaint(check: Callable[[Path], None], path: Path) -> str:
    try:
        check(path)
    except AssertionError as error:
        return str(error)
    return ""


def is_listed(path: Path, table: dict[str, str]) -> bool:
    return source.like(name_of(path), table)


# --- who may import whom -------------------------------------------------------------------------

INNER = {"kernel", "store"} | SUBJECTS
EVERYTHING = {"*"}
MAY_IMPORT = {
    "kernel": {"kernel"},
    "store": {"kernel", "store", "audit"},
    **dict.fromkeys(SUBJECTS, INNER),
    "channels": INNER | {"channels"},
    "providers": INNER | {"providers"},
    "models": INNER | {"models"},
    "tools": INNER | {"tools"},
    "config": INNER | {"config"},
    "api": INNER | {"api", "runtime"},
    "console": INNER | {"api", "console", "runtime"},
    "cli": INNER | {"api", "cli", "config", "runtime"},
    "eval": INNER | {"eval", "runtime"},
    "hermes": INNER | {"config", "hermes", "runtime"},
    "runtime": INNER | {"channels", "config", "models", "providers", "runtime", "tools"},
    "testing": EVERYTHING,
    "__init__": EVERYTHING,
    "__main__": EVERYTHING,
}
MAY_ALSO_IMPORT = {
    "api/app.py": {"console"},  # serves the pages beside the routes, which know nothing of them
    "cli/eval/compression.py": {"eval"},  # the command that measures compression
    "cli/eval/recall.py": {"eval"},  # the command that measures recall
    "cli/hermes*.py": {"hermes"},  # the commands for Hermes Agent
    "cli/sim.py": {"testing"},  # the command that runs the simulator
    "config/tables.py": {"api"},  # the limits of the server are a table of holdfast.toml
    "hermes/kept_reader.py": {"providers"},  # asks Hindsight and Honcho what they have of a home
    "eval/compression/run.py": {"testing"},  # a conversation in virtual time
    "eval/local_provider.py": {"providers"},  # measures the local provider itself, outside any runtime
    "store/node_sql.py": {"memory", "outbox"},  # a node learns what is due for every subject, and gives claims back
    "store/upkeep_sql.py": {"inbox", "memory"},  # pruning drops attachments and keeps tombstones
}


def layer_of(path: Path) -> str:
    return path.relative_to(SRC).with_suffix("").parts[0]


def layers_used(path: Path) -> set[str]:
    module = ".".join(path.relative_to(SRC.parent).with_suffix("").parts)
    names = source.imports(source.parse(path), module)
    return {name.split(".")[1] for name in names if name.startswith("holdfast.")}


@per_file(FILES)
def test_imports_point_inwards(path):
    assert layer_of(path) in MAY_IMPORT, "a new folder needs a place in MAY_IMPORT"
    also = [folders for name, folders in MAY_ALSO_IMPORT.items() if source.like(name_of(path), {name: ""})]
    allowed = MAY_IMPORT[layer_of(path)].union(*also)
    assert "*" in allowed or layers_used(path) <= allowed


EFFECTS = {
    *("time", "datetime", "random", "secrets", "uuid"),
    *(
        "asyncio",
        "concurrent",
        "contextvars",
        "multiprocessing",
        "queue",
        "select",
        "selectors",
        "signal",
        "subprocess",
        "threading",
        "_thread",
    ),
    *("glob", "io", "logging", "os", "pathlib", "platform", "shutil", "sys", "tempfile"),
    *("http", "httpx", "socket", "ssl", "starlette", "urllib.request", "uvicorn"),
    *("aiosqlite", "apsw", "sqlite3", "filelock", "platformdirs", "psycopg", "rich", "typer"),
}
PURE = {"pathlib.PurePath", "pathlib.PurePosixPath", "pathlib.PureWindowsPath"}
EFFECTFUL_BUILTINS = {"~open", "~print", "~input", "~breakpoint", "~exec", "~eval"}


def effects(tree: ast.AST) -> list[str]:
    names = sorted(source.imports(tree) - PURE)
    imported = [name for name in names if any(f"{name}.".startswith(f"{effect}.") for effect in EFFECTS)]
    return imported + source.uses(tree, EFFECTFUL_BUILTINS)


def acts(path: Path) -> bool:
    tree = source.parse(path)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    concrete = [one for one in classes if not any("Protocol" in ast.unparse(base) for base in one.bases)]
    bodies = [tree.body, *(one.body for one in concrete)]
    coroutines = [node for body in bodies for node in body if isinstance(node, ast.AsyncFunctionDef)]
    return bool(coroutines) or effects(tree) != []


@per_file([path for path in FILES if is_pure(path)])
def test_what_decides_has_no_effects(path):
    assert effects(source.parse(path)) == []
    assert not acts(path)


@per_file([path for path in FILES if is_pure(path)])
def test_what_decides_imports_nothing_that_acts(path):
    module = ".".join(path.relative_to(SRC.parent).with_suffix("").parts)
    imported = {name for name in source.imports(source.parse(path), module) if name.startswith("holdfast.")}
    files = {file for name in imported if (file := file_of(name)) is not None}
    assert sorted(name_of(file) for file in files if not is_pure(file)) == []


def file_of(name: str) -> Path | None:
    """The file of a module, or of the module that a dotted name is in."""
    parts = name.split(".")
    places = [SRC.parent.joinpath(*parts[:depth]).with_suffix(".py") for depth in (len(parts), len(parts) - 1)]
    return next((place for place in places if place.is_file()), None)


# --- clock, chance, tasks and threads come through ports -----------------------------------------

MACHINE = {
    *("time.time*", "time.monotonic*", "time.perf_counter*", "time.process_time*", "time.sleep"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
    *("asyncio.sleep", "*.call_later", "*.call_at"),
    *("random.*", "secrets.*", "uuid.uuid1", "uuid.uuid4", "uuid.uuid6", "uuid.uuid7", "uuid.uuid8"),
    *("os.urandom", "os.getrandom"),
    *("*.create_task", "asyncio.ensure_future", "asyncio.TaskGroup", "asyncio.gather"),
    *("asyncio.to_thread", "*.run_in_executor", "threading.Thread", "threading.Timer", "_thread.*"),
    *("concurrent.futures.*Executor", "multiprocessing.*"),
}
NOT_CHANCE = {"secrets.compare_digest"}
MAY_USE_THE_MACHINE = {
    "cli/progress.py": "a thread that tells how far the work is, which may keep the event loop busy",
    "cli/logs.py": "a thread that writes lines, which everybody says and nobody waits for",
    "hermes/plugin/client.py": "runs inside Hermes, where Holdfast's ports do not exist",
    "hermes/plugin/spool.py": "runs inside Hermes, where Holdfast's ports do not exist",
    "cli/terminal.py": "a thread that waits for typed lines, which no event loop can do on every platform",
    "runtime/library.py": "the synchronous face runs an event loop in a thread of its own",
    "kernel/notifier.py": "a timer only announces work: the loop of a simulation runs it like any other timer",
    "kernel/machine.py": "the real Clock, Entropy and Tasks",
    "testing/*": "the simulator owns clock, chance and order, and its runner times itself",
    "store/postgres/database.py": "a script that lost a race waits a moment; the simulator does not run on PostgreSQL",
    "store/postgres/hints.py": "hints that come close together share one notification",
    "store/sqlite/thread_pool.py": "the only place of the engine that starts threads; the simulator runs it inline",
}


def machine_uses(tree: ast.AST) -> list[str]:
    return source.uses(tree, MACHINE, but=NOT_CHANCE)


@per_file(FILES)
def test_clock_chance_tasks_and_threads_come_through_ports(path):
    assert is_listed(path, MAY_USE_THE_MACHINE) or machine_uses(source.parse(path)) == []


# --- errors travel, or are handled ---------------------------------------------------------------

BROAD = {"Exception", "BaseException"}
SWALLOWING = BROAD | {"HoldfastError"}
MAY_CATCH_EVERYTHING = {
    "channels/discord/reading.py": "the top of every conversation: logs once, reads it again after a pause",
    "api/app.py": "the top of every request: logs once, answers 500",
    "api/streams/event_stream.py": "what the source of a stream raises is raised where the stream is sent",
    "api/streams/websocket.py": "the top of every connection: logs once, closes with 1011",
    "channels/telegram/receiving.py": "what taking an update raises is raised where all of them are awaited",
    "cli/running.py": "the top of every command: shows what happened, exits with 70",
    "runtime/inspection.py": "providers and channels are foreign code: what they raise is the result",
    "memory/delivery_call.py": "a provider is somebody else's code: what it did before it raised is uncertain",
    "memory/recaller.py": "a provider is somebody else's code: the turn goes on without its memory",
    "sessions/finisher.py": "the top of every finalisation: logs once, postpones it from its newest step",
    "sessions/compressor.py": "the top of a compression: whoever waits for it gets the error, or the log does",
    "inbox/router.py": "what a message meets is raised again, until the message is on record as refused",
    "kernel/loop.py": "the top of every loop, task and claim: logs once, and the others go on",
    "providers/hermes/host.py": "a hosted provider is somebody else's code: what it did before it raised is uncertain",
    "cli/reload_listener.py": "a reload that fails leaves the process serving, and the command gets the error",
    "outbox/reply_sender.py": "a channel is somebody else's code: what it posted before it raised is uncertain",
    "tools/toolbox.py": "a tool is somebody else's code: what it raises is told to the model",
    "turns/turn_run.py": "the error of either side of a race is raised where the race is awaited",
    "store/sqlite/batch.py": "a bug in one script becomes that call's outcome and spares its neighbours",
    "store/sqlite/thread_pool.py": "a dead thread would leave its callers waiting for ever; each gets the error",
    "tools/mcp/server.py": "the top of a server's connection: whatever its library raises means that it is not there",
    "testing/*": "the simulator and the checks report whatever is raised",
}


def catches(tree: ast.AST) -> list[str]:
    handlers = source.broad_handlers(tree, BROAD)
    return [source.at(handler, "catches all") for handler in handlers if not source.keeps_the_error(handler)]


def swallows(tree: ast.AST) -> list[str]:
    handlers = source.broad_handlers(tree, SWALLOWING)
    silent = [source.at(handler, "does nothing") for handler in handlers if source.is_silent(handler)]
    return silent + source.suppressed(tree, SWALLOWING)


@per_file(FILES)
def test_only_a_loop_catches_everything(path):
    assert is_listed(path, MAY_CATCH_EVERYTHING) or catches(source.parse(path)) == []


@per_file(FILES)
def test_no_error_is_swallowed(path):
    assert swallows(source.parse(path)) == []


# --- the live database ---------------------------------------------------------------------------

FILE_ACCESS = {
    *("~open", "io.open", "os.open", "codecs.open", "shutil.copy*", "*.read_bytes", "*.write_bytes"),
    *("*.write_text", "*path.open", "*file.open", "pathlib.Path.open"),
}


MAY_OPEN_FILES = {
    "store/sqlite/path.py": "creates the file with O_EXCL, so it cannot be one that is live",
    "store/sqlite/owner.py": "the owner's process id, a file beside the database",
}


def file_uses(tree: ast.AST) -> list[str]:
    return source.uses(tree, FILE_ACCESS)


@per_file([path for path in FILES if name_of(path).startswith("store/sqlite/")])
def test_the_sqlite_store_never_opens_a_file_itself(path):
    """Closing any second handle of a database file drops the locks SQLite holds on it (POSIX)."""
    assert is_listed(path, MAY_OPEN_FILES) or file_uses(source.parse(path)) == []


# --- size ----------------------------------------------------------------------------------------

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MAY_BE_LONG: dict[str, str] = {
    "kernel/errors.py": "every error that people script against, in one place; the reference page is made from it",
    "runtime/runtime.py": "the library's face: a short method for each thing that may be asked of a running Holdfast",
}


@cache
def long_things() -> dict[str, int]:
    """Files and functions over the limits, with their lines."""
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    found = {name: size for name, size in sizes.items() if size > FILE_LINES_MAX}
    for path in FILES:
        spans = {name: source.lines(node) for name, node in source.functions(source.parse(path))}
        found |= {f"{name_of(path)}::{name}": n for name, n in spans.items() if n > FUNCTION_LINES_MAX}
    return found


def test_what_is_long_says_why():
    unlisted = {name: size for name, size in long_things().items() if name not in MAY_BE_LONG}
    assert unlisted == {}


# --- names ---------------------------------------------------------------------------------------

# Metaphors that a reader would have to be told. A module's name says what the thing is in the words of the field.
RETIRED = {
    *("anchor", "attendance", "attendant", "bell", "bulletin", "carrier", "courier", "crew", "desk", "exchange"),
    *("gist", "hand", "hops", "keeper", "kindred", "letter", "liaison", "line", "lookout", "poster", "postman"),
    *("presence", "reception", "refill", "relog", "room", "say", "shelf", "sketch", "standing", "till", "turnstile"),
    *("visit", "whereabouts"),
}


def class_names() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in FILES:
        for node in source.nodes(source.parse(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(name_of(path))
    return found


def test_one_class_name_is_one_class():
    assert {name: places for name, places in class_names().items() if len(places) > 1} == {}


NAMED_ROWS = {"audit", "memory", "sessions"}  # subjects whose rows of more than three columns have names
BY_POSITION = {"memory/lane_sql.py"}


@per_file([path for path in FILES if path.name.endswith("_sql.py") and path.parent.name in NAMED_ROWS])
def test_no_column_beyond_the_third_is_read_by_its_number(path):
    subscripts = [node.slice for node in ast.walk(source.parse(path)) if isinstance(node, ast.Subscript)]
    numbers = [one.value for one in subscripts if isinstance(one, ast.Constant) and isinstance(one.value, int)]
    assert name_of(path) in BY_POSITION or max(numbers, default=0) < 3, "make the row a value (`Columns`)"


@per_file(FILES)
def test_no_module_is_named_by_a_retired_metaphor(path):
    assert not RETIRED & set(path.stem.split("_")), "use the word of the field"


# --- portability ---------------------------------------------------------------------------------

UNIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
UNIX_NAMES = {
    *(
        "signal.SIGKILL",
        "signal.SIGHUP",
        "signal.SIGUSR?",
        "signal.SIGQUIT",
        "signal.SIGALRM",
        "signal.pause",
    ),
    *("os.fork*", "os.killpg", "os.setsid", "os.get*uid", "os.get*gid", "os.chown", "os.mkfifo"),
    *("os.uname", "os.statvfs", "os.sched_getaffinity", "os.O_DIRECTORY", "*.add_signal_handler"),
}
MAY_USE_UNIX: dict[str, str] = {}
MACHINE_FOLDERS = re.compile(r"(?<![\w.])/(tmp|dev/shm)\b")


def unix_uses(tree: ast.AST) -> list[str]:
    return source.unguarded(tree, UNIX_MODULES, UNIX_NAMES)


@per_file(FILES)
def test_what_only_unix_has_stands_behind_a_feature_test(path):
    assert is_listed(path, MAY_USE_UNIX) or unix_uses(source.parse(path)) == []


@per_file(FILES)
def test_temporary_folders_are_asked_for_not_spelt_out(path):
    assert not MACHINE_FOLDERS.search(path.read_text(encoding="utf-8"))


# --- exceptions ----------------------------------------------------------------------------------

EXCEPTIONS = [
    (MAY_USE_THE_MACHINE, machine_uses),
    (MAY_CATCH_EVERYTHING, catches),
    (MAY_OPEN_FILES, file_uses),
    (MAY_USE_UNIX, unix_uses),
]


def test_no_exception_is_stale():
    """An entry for a file that does not exist allows nothing, so it may wait there."""
    assert set(MAY_BE_LONG) <= set(long_things())
    entries = [(SRC / name, finder) for table, finder in EXCEPTIONS for name in table]
    idle = [path for path, finder in entries if path.is_file() and not finder(source.parse(path))]
    assert idle == []


# --- text ----------------------------------------------------------------------------------------

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
THIS_MACHINE = re.compile(r"(?<![\w.])/(work|root|opt/pypi[\w-]*)/|pypi\.org/simple|pythonhosted|--(extra-)?index-url")
TEXT = {"", ".css", ".html", ".js", ".json", ".md", ".py", ".sql", ".svg", ".toml", ".txt", ".yaml", ".yml"}
NOT_OURS = re.compile(r"__pycache__|\.egg-info|^(build|dist|data)/|^\.(?!ci/|github/|gitignore)")


def our_texts() -> list[Path]:
    """The project's own text files, without what tools leave in the folder."""
    tops = [top for top in ROOT.iterdir() if not NOT_OURS.search(f"{top.name}/")]
    files = [file for top in tops for file in (top.rglob("*") if top.is_dir() else [top])]
    ours = [file for file in files if not NOT_OURS.search(file.relative_to(ROOT).as_posix())]
    return sorted(file for file in ours if file.suffix in TEXT and file.is_file() and file != Path(__file__))


@per_file([path for path in our_texts() if path.is_relative_to(SRC)])
def test_nothing_in_the_source_is_left_unfinished(path):
    assert not UNFINISHED.search(path.read_text(encoding="utf-8"))


@per_file(our_texts())
def test_no_file_names_the_machine_it_was_written_on(path):
    assert not THIS_MACHINE.search(path.read_text(encoding="utf-8", errors="replace"))


def test_every_file_has_a_name_that_all_systems_take():
    tops = [top for top in ROOT.iterdir() if not NOT_OURS.search(f"{top.name}/")]
    names = [file.relative_to(ROOT).as_posix() for top in tops for file in (top, *top.rglob("*"))]
    assert [name for name in names if not re.fullmatch(r"[\w.+@/-]+", name, re.ASCII)] == []


# --- tests wait for events -----------------------------------------------------------------------


def sleeps(tree: ast.AST) -> list[str]:
    yields = [call.func for call in source.calls(tree, "sleep") if [ast.unparse(a) for a in call.args] == ["0"]]
    found = [(node, name) for node, name in source.references(tree) if name in {"time.sleep", "asyncio.sleep"}]
    return [source.at(node, name) for node, name in found if name == "time.sleep" or node not in yields]


MAY_SLEEP = {"tests/testing/test_sim_*.py": "inside a SimLoop a sleep jumps the virtual clock and takes no time"}


@per_file(TESTS)
def test_tests_never_sleep(path):
    """They wait on an event or jump the clock; asyncio.sleep(0) only lets others run."""
    if "sleep" in path.read_text(encoding="utf-8"):  # a file without the word is not worth parsing
        assert is_listed(path, MAY_SLEEP) or sleeps(source.parse(path)) == []


# --- log events ----------------------------------------------------------------------------------

LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
LOG_NAMES = re.compile(r"(^|\.)_?log(ger)?$")


def events_logged(tree: ast.AST) -> list[tuple[ast.Call, str | None]]:
    """Each call of the log with the event it names; None when the name is put together at run time."""
    found = [call for level in LEVELS for call in source.calls(tree, level) if isinstance(call.func, ast.Attribute)]
    ours = [call for call in found if LOG_NAMES.search(ast.unparse(call.func).rpartition(".")[0])]
    return [(call, _literal(call.args[0]) if call.args else None) for call in ours]


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def known_events() -> set[str]:
    if not (SRC / "kernel/log.py").exists():
        return set()
    return set(import_module("holdfast.kernel.log").EVENTS)


@per_file([path for path in FILES if name_of(path) != "kernel/log.py"])
def test_every_event_is_in_the_table(path):
    known = known_events()
    logged = events_logged(source.parse(path))
    assert [source.at(call, str(event)) for call, event in logged if event not in known] == []


# --- rules, broken on purpose --------------------------------------------------------------------

BROKEN = [
    (effects, "import apsw"),
    (effects, "from pathlib import Path"),
    (effects, "import urllib.request"),
    (effects, "print('hello')"),
    (machine_uses, "import time as t\nt.time()"),
    (machine_uses, "from time import monotonic\nclock = monotonic"),
    (machine_uses, "from datetime import datetime, UTC\ndatetime.now(UTC)"),
    (machine_uses, "import random\nrandom.random()"),
    (machine_uses, "from uuid import uuid4\nuuid4()"),
    (machine_uses, "import asyncio\nasyncio.create_task(work())"),
    (machine_uses, "self.loop.run_in_executor(None, work)"),
    (machine_uses, "from threading import Thread\nThread(target=work).start()"),
    (catches, "try: act()\nexcept Exception as error: log.error(error)"),
    (catches, "try: act()\nexcept (KeyError, BaseException): answer = None"),
    (catches, "for x in y:\n try: act()\n except:\n  if x: continue\n  raise"),
    (swallows, "try: act()\nexcept HoldfastError: pass"),
    (swallows, "from contextlib import suppress\nwith suppress(KeyError, Exception): act()"),
    (file_uses, "open(path)"),
    (file_uses, "self._path.open()"),
    (unix_uses, "import fcntl"),
    (unix_uses, "import signal\nsend(signal.SIGKILL)"),
    (sleeps, "import time\ntime.sleep(0)"),
    (sleeps, "import asyncio\nasync def f(): await asyncio.sleep(0.1)"),
    (sleeps, "import asyncio\nasync def f(): await asyncio.sleep(delay)"),
    (events_logged, "self._log.info('turn.committed')"),
]
SOUND = [
    (effects, "from urllib.parse import quote\nfrom pathlib import PurePath"),
    (
        machine_uses,
        "import asyncio, secrets\nasyncio.Event()\nsecrets.compare_digest(a, b)\nself.random.bits()",
    ),
    (catches, "try: act()\nexcept BaseException:\n undo()\n raise"),
    (swallows, "try: act()\nexcept KeyError: pass"),
    (unix_uses, "import sys\nif sys.platform != 'win32':\n import fcntl"),
    (unix_uses, "try:\n import resource\nexcept ImportError:\n resource = None"),
    (sleeps, "import asyncio\nasync def f(): await asyncio.sleep(0)"),
    (events_logged, "math.log(2)\nparser.error('usage')"),
]


@pytest.mark.parametrize(("finder", "code"), BROKEN)
def test_a_broken_rule_is_seen(finder, code):
    assert finder(ast.parse(code)) != []


@pytest.mark.parametrize(("finder", "code"), SOUND)
def test_sound_code_is_left_alone(finder, code):
    assert finder(ast.parse(code)) == []


def test_a_relative_import_is_seen_as_the_layer_it_reaches():
    assert source.imports(ast.parse("from ..store import sqlite"), "holdfast.turns.turn") == {"holdfast.store.sqlite"}
