"""The promise: two verbs that meet on common rows of PostgreSQL do what one after the other would do, and each lock and
each comparison of a verb is needed for that: without it a test here fails.

SQLite runs one script at a time and cannot show any of this. `interleaving.py` says which orders are played.
"""

import ast
import importlib
import pkgutil
import re

import pytest

from holdfast.stores import verbs
from holdfast.stores.store import SqlStore
from holdfast.testing import ManualClock
from tests.contract.driver import Driver
from tests.contract.engines import SCHEMA, open_engine
from tests.postgres.interleaving import Party, Site, faults, open_stage, without
from tests.postgres.pairs import SITUATIONS
from tests.postgres.teeth import COMPARISONS, LOCKS, NAMES, SHADOWED, SOUND

LOCK = r"/\*\s*(lock|skip locked)\s*\*/"
COMPARED = re.compile(
    r"""\b(?:and|where)\s+(?:\w+\.)?(
        fence\s=\s:fence | owner\sis\snull | attempt\s=\s:attempt | \w+_seq\s=\s:expected | state\s=\s'\w+'
      | state\sin\s\([^)]*\) | state\s<>\s'\w+' | \w+_at\sis\snull | position\s<\sexcluded\.\w+ | step\s=\s:step
      | held_until\s<=\s:now )""",
    re.VERBOSE,
)


@pytest.fixture
async def play(postgres_server, tmp_path):
    """Finds the faults of two verbs of a situation."""

    async def find(situation, first, second, rewrite=None, *, grid=False, unnamed=False):
        clock = ManualClock()
        async with open_engine("postgres", tmp_path, clock, postgres_server) as database:
            store = await SqlStore.open(database, b"a secret of the tests")
            driver = Driver(store, database, clock)
            await store.register_node(driver.node, "here", sole=False)
            made = await SITUATIONS[situation](driver)
            pair = tuple(Party(made[name].script, "" if unnamed else made[name].name, made[name].passed)
                         for name in (first, second))  # fmt: skip
            async with open_stage(postgres_server.dsn, SCHEMA) as stage:
                await stage.keep()
                found = []
                options = {"grid": grid} if rewrite is None else {"rewrite": rewrite, "grid": grid}
                async for fault in faults(stage, pair, **options):
                    found.append(fault)
                    break
                return found

    return find


def name_of(pair):
    return ", ".join(pair) if isinstance(pair, tuple) else str(pair)


@pytest.mark.parametrize("pair", SOUND, ids=name_of)
async def test_two_verbs_at_once_do_what_one_after_the_other_does(play, pair):
    assert await play(*pair) == []


@pytest.mark.parametrize("pair", sorted({pair for pair in (*LOCKS.values(), *COMPARISONS.values())}), ids=name_of)
async def test_what_shows_the_teeth_is_sound_itself(play, pair):
    assert await play(*pair) == []


@pytest.mark.parametrize("site", sorted(LOCKS))
async def test_a_verb_without_one_of_its_locks_is_found_out(play, site):
    assert await play(*LOCKS[site], without(Site(*site.split(".")), LOCK)) != []


@pytest.mark.parametrize("site", sorted(COMPARISONS))
async def test_a_verb_without_one_of_its_comparisons_is_found_out(play, site):
    assert await play(*COMPARISONS[site], without(Site(*site.split(".")), comparison_of(site), r"\1\2true")) != []


@pytest.mark.parametrize("verb", sorted(NAMES))
async def test_a_verb_without_its_name_is_found_out(play, verb):
    situation, first, second = NAMES[verb]
    assert await play(situation, first, second) == []
    assert await play(situation, first, second, unnamed=True) != []


# --- every lock and every comparison has a test -----------------------------------------------------


def modules():
    return [importlib.import_module(f"{verbs.__name__}.{found.name}") for found in pkgutil.iter_modules(verbs.__path__)]


def statements(module):
    """The statements that a module uses, by the name it has for each, also those it takes from others."""
    tree = ast.parse(open(module.__file__, encoding="utf-8").read())  # noqa: SIM115, PTH123
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
    """The condition of a change: what stands behind its last top-level `where`."""
    return "where " + sql.rpartition("\n where ")[2] if "\n where " in sql else sql


def comparison_of(site):
    """The text of a site's comparisons, as a pattern."""
    module, name = site.split(".")
    sql = getattr(importlib.import_module(f"{verbs.__name__}.{module}"), name)
    words = [re.escape(found[0].split(None, 1)[1]) for found in COMPARED.finditer(_after_set(sql))]
    return rf"\b(and|where)(\s+)({'|'.join(words)})"


def test_every_lock_of_a_verb_is_tested():
    untested = sites(lambda sql: re.search(LOCK, sql)) - set(LOCKS) - set(SHADOWED)
    assert untested == set(), "each needs a pair of verbs in tests/postgres/teeth.py that fails without it"


def test_every_comparison_of_a_verb_is_tested():
    untested = sites(is_compared) - set(COMPARISONS) - set(SHADOWED)
    assert untested == set(), "each needs a pair of verbs in tests/postgres/teeth.py that fails without it"


def test_every_name_of_a_verb_is_tested():
    from holdfast import stores

    named = set()
    for found in pkgutil.iter_modules(stores.__path__):
        if found.ispkg:
            continue
        module = importlib.import_module(f"{stores.__name__}.{found.name}")
        for call in ast.walk(ast.parse(open(module.__file__, encoding="utf-8").read())):  # noqa: SIM115, PTH123
            if isinstance(call, ast.Call) and any(word.arg == "name" for word in call.keywords) and call.args:
                named |= {call.args[0].value} if isinstance(call.args[0], ast.Constant) else set()
    assert named - set(NAMES) == set()


def test_no_entry_is_stale():
    known = sites(lambda sql: re.search(LOCK, sql)) | sites(is_compared)
    assert {*LOCKS, *COMPARISONS, *SHADOWED} - known == set()
