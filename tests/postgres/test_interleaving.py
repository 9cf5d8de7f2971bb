"""The promise: two verbs that meet on common rows of PostgreSQL do what one after the other would do, and each lock and
each comparison of a verb is needed for that: without it a test here fails.

SQLite runs one script at a time and cannot show any of this. `interleaving.py` says which orders are played.
"""

import ast
import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

import holdfast
from holdfast.store.node_sql import register_node
from holdfast.store.script import Verb
from holdfast.testing import ManualClock
from tests.postgres import forgotten_messages, pairs, phantoms, repairs, repeats
from tests.postgres.interleaving import Party, Site, as_written, faults, open_stage, outcomes, without
from tests.postgres.teeth import COMPARISONS, DOUBLE, HELD, LOCKS, NAMES, SOUND, UNSERVED
from tests.support.driver import Driver
from tests.support.engines import SCHEMA, empty_schema, open_engine

SITUATIONS = {
    **pairs.SITUATIONS,
    **phantoms.SITUATIONS,
    **repeats.SITUATIONS,
    **forgotten_messages.SITUATIONS,
    **repairs.SITUATIONS,
}
LOCK = r"/\*\s*(lock|share|skip locked)\s*\*/"
COMPARED = re.compile(
    r"""\b(?:and|where)\s+(?:\w+\.)?(
        fence\s=\s:fence | owner\sis\snull | attempt\s=\s:attempt | \w+_seq\s=\s:expected | state\s=\s'\w+'
      | state\sin\s\([^)]*\) | state\s<>\s'\w+' | \w+_at\sis\snull | position\s<\sexcluded\.\w+ | step\s=\s:step
      | held_until\s<=\s:now )""",
    re.VERBOSE,
)
# Compared beside one of these, and taken away with it.
ALSO = re.compile(r"\band\s+(owner = :node|part = :sent|depth = 0|attempt = :attempt)")


async def first_fault(stage, pair, rewrite):
    async for fault in faults(stage, pair, rewrite):
        return [fault]
    return []


together = pytest.mark.asyncio(loop_scope="module")  # a new connection costs more than most situations


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connections(postgres_server):
    """The contract's database and a stage on it, for all tests of this module."""
    async with (
        open_engine("postgres", Path(), ManualClock(), postgres_server) as timed,
        open_stage(postgres_server.dsn, SCHEMA) as stage,
    ):
        yield timed, stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(connections, postgres_server):
    """Makes a situation, unless the test before had the same one: the stage restores it before every order."""
    (timed, stage), latest = connections, ["", {}]

    async def make(situation):
        if latest[0] != situation:
            latest[0], clock = "", ManualClock()
            empty_schema(postgres_server)
            driver = Driver(timed.restarted(clock), clock)
            await driver.db.write(register_node(driver.node, "here", sole=False))
            latest[1] = await SITUATIONS[situation](driver)
            await driver.rows("select 1")  # PostgreSQL is told the time with it
            await stage.keep()
            latest[0] = situation
        return latest[1]

    return make


@pytest.fixture
def play(connections, made):
    """Finds the faults of two verbs of a situation."""

    async def find(situation, first, second, rewrite=as_written, *, unnamed=False, finder=first_fault):
        verbs = await made(situation)
        pair = tuple(Party(verbs[name].script, "" if unnamed else verbs[name].name, verbs[name].passed)
                     for name in (first, second))  # fmt: skip
        return await finder(connections[1], pair, rewrite)

    return find


def by_situation(table):
    """The keys of a table, so that tests of the same situation follow each other."""
    return sorted(table, key=lambda key: table[key])


def name_of(pair):
    return ", ".join(pair) if isinstance(pair, tuple) else str(pair)


@together
@pytest.mark.parametrize(
    "pair",
    sorted({*SOUND, *LOCKS.values(), *COMPARISONS.values(), *DOUBLE.values(), *HELD.values(), *NAMES.values()}),
    ids=name_of,
)
async def test_two_verbs_at_once_do_what_one_after_the_other_does(play, pair):
    assert await play(*pair) == []


@together
@pytest.mark.parametrize("site", by_situation(LOCKS))
async def test_a_verb_without_one_of_its_locks_is_found_out(play, site):
    assert await play(*LOCKS[site], without(Site(*site.split(".")), LOCK)) != []


@together
@pytest.mark.parametrize("site", by_situation(COMPARISONS))
async def test_a_verb_without_one_of_its_comparisons_is_found_out(play, site):
    assert await play(*COMPARISONS[site], without(Site(*site.split(".")), comparison_of(site), r"\1\2true")) != []


@together
@pytest.mark.parametrize("site", by_situation(HELD))
async def test_a_lock_makes_up_for_a_comparison_of_what_it_holds(play, site):
    assert await play(*HELD[site], without(Site(*site.split(".")), comparison_of(site), r"\1\2true")) == []


@together
@pytest.mark.parametrize("verb", by_situation(NAMES))
async def test_a_verb_without_its_name_is_found_out(play, verb):
    assert await play(*NAMES[verb], unnamed=True) != []


@together
@pytest.mark.parametrize("double", by_situation(DOUBLE), ids=name_of)
async def test_a_verb_without_both_of_two_guards_is_found_out(play, double):
    lock, comparison = (Site(*site.split(".")) for site in double)
    unlocked = without(lock, LOCK)
    uncompared = without(comparison, comparison_of(double[1]), r"\1\2true")
    assert await play(*DOUBLE[double], lambda at, sql: uncompared(at, unlocked(at, sql))) != []


async def lost_drafts(stage, pair, rewrite):
    """Orders in which a turn took its draft up again and has none afterwards."""
    played = [outcome async for outcome in outcomes(stage, pair, rewrite)]
    return [outcome.order for outcome in played if outcome.results[1] != "None" and not outcome.rows.get("draft")]


@together
async def test_a_draft_that_is_taken_up_again_is_not_handed_over(play):
    """No order of both does the same: the question is posted anew, and the turn keeps its draft."""
    pair = ("asked_and_drafted", "claim replies", "intend again")
    assert await play(*pair, finder=lost_drafts) == []
    careless = without(Site("draft_sql", "HAND_OVER"), comparison_of("draft_sql.HAND_OVER"), r"\1\2true")
    assert await play(*pair, careless, finder=lost_drafts) != []


# --- every lock and every comparison has a test -----------------------------------------------------


@cache
def modules():
    found = pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    return [importlib.import_module(one.name) for one in found if one.name.endswith("_sql")]


@cache
def statements(module):
    """The statements that a module uses, by the name it has for each, also those it takes from others."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found = {name: getattr(module, name, None) for name in used}
    return {name: sql for name, sql in found.items() if isinstance(sql, str) and name.isupper()}


def sites(wanted):
    found = [(module.__name__.rpartition(".")[2], statements(module)) for module in modules()]
    return {f"{module}.{name}" for module, named in found for name, sql in named.items() if wanted(sql)}


def is_compared(sql):
    changes = re.match(r"\s*(with\b.*?\)\s*)?(update|delete|insert)\b", sql, re.DOTALL)
    return bool(changes) and bool(COMPARED.search(_after_set(sql)))


def _after_set(sql):
    """The condition of a change: what stands behind its last top-level `where`, and before what it returns."""
    sql = sql.partition(" returning ")[0]
    return "where " + sql.rpartition("\n where ")[2] if "\n where " in sql else sql


def comparison_of(site):
    """The text of a site's comparisons, as a pattern."""
    module, name = site.split(".")
    sql = next(getattr(one, name) for one in modules() if one.__name__.endswith(f".{module}"))
    words = [re.escape(found[0].split(None, 1)[1]) for found in COMPARED.finditer(_after_set(sql))]
    words += [re.escape(found[1]) for found in ALSO.finditer(_after_set(sql))]
    return rf"\b(and|where)(\s+)({'|'.join(words)})"


def test_every_lock_of_a_verb_is_tested():
    untested = sites(lambda sql: re.search(LOCK, sql)) - {*LOCKS, *(lock for lock, _ in DOUBLE)}
    assert untested == set(), "each needs a pair of verbs in tests/postgres/teeth.py that fails without it"


def test_every_comparison_of_a_verb_is_tested():
    tested = {*COMPARISONS, *(compared for _, compared in DOUBLE), "draft_sql.HAND_OVER"}
    excused = {*HELD, *UNSERVED}
    assert excused & tested == set()
    untested = sites(is_compared) - tested - excused
    assert untested == set(), "each needs a pair of verbs in tests/postgres/teeth.py that fails without it"


def test_every_name_of_a_verb_is_tested():
    verbs = [one for module in modules() for one in vars(module).values() if isinstance(one, Verb)]
    named = {one.name for one in verbs if one.lock is not None}
    assert named - set(NAMES) == set()


def test_no_entry_is_stale():
    known = sites(lambda sql: re.search(LOCK, sql)) | sites(is_compared)
    doubles = {site for double in DOUBLE for site in double}
    assert {*LOCKS, *COMPARISONS, *doubles, *HELD, *UNSERVED} - known == set()
