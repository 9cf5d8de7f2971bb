"""The promise: the exit codes are one table. Each code of the table is what some command ends with, a command uses no
number that is not in it, and the table stands in `holdfast --help` and in the reference."""

import ast
import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner

from holdfast.cli import exit_codes, running
from holdfast.cli.commands import app
from holdfast.cli.exit_codes import EXIT_CODES
from holdfast.runtime import app as runtime_app
from holdfast.runtime.app import make_agents, open_runtime
from tests.support.approving import Till
from tests.support.fakes import ScriptedModel, agents, calls, policy, says

ROOT = Path(__file__).parents[2]
CLI = ROOT / "src" / "holdfast" / "cli"
# Codes that only a process of its own can end with, and the test that sees them.
OF_A_PROCESS = {
    exit_codes.INTERRUPTED: "tests/simulation/test_worker_pool.py::test_its_workers_end_with_a_campaign",
    exit_codes.TERMINATED: "tests/simulation/test_worker_pool.py::test_its_workers_end_with_a_campaign",
}


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], prog_name="holdfast").exit_code


@pytest.fixture
def folder(tmp_path):
    async def talk():
        async with await open_runtime(tmp_path / "data", agents=make_agents()) as runtime:
            await runtime.ask("hello", "hi")

    asyncio.run(talk())
    return tmp_path / "data"


def success(folder, patch):
    return run("sessions", "--data", folder)


def an_error(folder, patch):
    return run("sessions", "--data", folder / "none")


def wrong_usage(folder, patch):
    return run("sessions", "--colour")


def a_question_without_a_terminal(folder, patch):
    return run("forget", "--person", "ada", "--data", folder)


def a_contradiction(folder, patch):
    assert run("link", "telegram:1", "ada", "--data", folder) == 0
    db = apsw.Connection(str(folder / "holdfast.db"))
    db.execute("drop trigger action_is_not_changed; update action set actor = 'somebody else' where n = 1")
    db.close()
    return run("audit", "actions", "--verify", "--data", folder)


def an_approval(folder, patch):
    model = ScriptedModel(calls('pay {"amount": 3}'), says("done"))
    found = SimpleNamespace(agents=agents(model, policy(), tools=[Till().tool()]))

    async def detect(*_: Any) -> Any:
        return found

    patch.setattr(runtime_app, "detect_agents", detect)
    return run("send", "pay", "--wait", "--data", folder)


def a_bug(folder, patch):
    def broken() -> Any:
        raise ZeroDivisionError

    patch.setattr(running, "local_user", broken)
    return run("sessions", "--data", folder)


ENDINGS = {
    success: exit_codes.OK,
    an_error: exit_codes.WRONG,
    wrong_usage: exit_codes.USAGE,
    a_question_without_a_terminal: exit_codes.USAGE,
    a_contradiction: exit_codes.CONTRADICTION,
    an_approval: exit_codes.AWAITING,
    a_bug: exit_codes.INTERNAL,
}


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda one: one.__name__)
def test_a_command_ends_with_the_code_of_its_kind(folder, ending, monkeypatch):
    assert ending(folder, monkeypatch) == ENDINGS[ending]


def test_every_code_of_the_table_is_seen_somewhere():
    assert {*ENDINGS.values(), *OF_A_PROCESS} == set(EXIT_CODES)
    for place in OF_A_PROCESS.values():
        path, _, test = place.partition("::")
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def test_the_table_is_printed_and_documented():
    told = " ".join(CliRunner().invoke(app, ["--help"], prog_name="holdfast").output.split())
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for code, what in EXIT_CODES.items():
        assert f"{code} {what}" in told
        assert f"| `{code}` | {what} |" in page


def bare_codes(tree):
    """Exit codes that are written as numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            given = node.args[:1] if name in {"typer.Exit", "sys.exit"} else []
            given += [one.value for one in node.keywords if name == "Output" and one.arg == "code"]
            yield from (leaf for one in given for leaf in ast.walk(one) if isinstance(leaf, ast.Constant))


def test_no_command_writes_a_code_as_a_number():
    found = {
        path.name: [leaf.value for leaf in bare_codes(ast.parse(path.read_text(encoding="utf-8")))]
        for path in CLI.rglob("*.py")
    }
    assert {name: numbers for name, numbers in found.items() if any(type(one) is int for one in numbers)} == {}
