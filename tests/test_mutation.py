"""The bugs that `make mutants` plants are changes of behaviour, found from the syntax, that compile."""

from tests.simulation import test_histories
from tools.mutation.__main__ import CHUNKS, SIMULATED, _simulated
from tools.mutation.choose import FOCUSED, choose, every_mutation, stages
from tools.mutation.operators import Finder
from tools.mutation.place import ROOT

CODE = b'''
"""A module."""
LIMIT = 400
OPEN = """
select id from turn where session = :session and phase = 'open' order by n /*lock*/"""
CLOSED = frozenset({"done", "failed"})


@decorated(frozen=True)
class Turn:
    """A turn."""

    n: int = 0

    def later(self, other: "Turn | None" = None) -> bool:
        """Whether it comes after another."""
        if other is None:
            raise ValueError(f"{1 + 1}")
        return self.n > other.n and not self.lost


def keep(turn):
    yield from run(OPEN, n=turn.n + 1)
'''


def found():
    return Finder("module.py", CODE).find()


def test_each_mutation_changes_the_file_and_compiles():
    for mutation in found():
        assert mutation.applied(CODE) != CODE
        assert mutation.compiles(CODE), mutation


def test_the_typical_mistakes_are_made():
    made = {(one.operator, one.scope) for one in found()}
    assert {
        ("sql-lock", "OPEN"),
        ("sql-condition", "OPEN"),
        ("sql-order", "OPEN"),
        ("member", "CLOSED"),
        ("compare", "Turn.later"),
        ("and-or", "Turn.later"),
        ("operand", "Turn.later"),
        ("not", "Turn.later"),
        ("arithmetic", "keep"),
        ("deleted", "keep"),
    } <= made


def test_what_changes_no_behaviour_is_left_alone():
    lines = {one.line for one in found()}
    for number, line in enumerate(CODE.decode().splitlines(), start=1):
        if "LIMIT" in line or "@decorated" in line or "n: int" in line or "raise" in line or '"""A' in line:
            assert number not in lines


def test_every_file_gets_some_and_the_same_seed_the_same():
    chosen = choose(7, 300)
    assert {one.path for one in chosen} >= {
        path.relative_to(ROOT).as_posix() for path, found in every_mutation().items() if found
    }
    assert chosen == choose(7, 300)
    assert chosen != choose(8, 300)


def test_focused_tests_are_asked_first_and_others_while_the_budget_lasts():
    focused = [f"f{n}" for n in range(FOCUSED)]
    seconds = {**dict.fromkeys(focused, 9.0), "a": 2.0, "b": 1.0, "c": 3.0}
    assert stages([*focused, "a", "b", "c"], seconds, 3.5) == [focused, ["b", "a"]]
    assert stages(["c"], seconds, 3.5) == [["c"]]
    assert stages([], seconds, 3.5) == []


def test_the_histories_that_are_asked_last_exist():
    """pytest fails for an id that does not exist, and every bug would count as noticed."""
    name = f"{SIMULATED}::test_no_history_breaks_an_invariant"
    chunks = [first if isinstance(first, int) else first.values[0] for first in test_histories.chunks()]
    assert {one for asked in _simulated(CHUNKS) for one in asked} <= {f"{name}[{first}]" for first in chunks}
