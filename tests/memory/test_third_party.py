"""A third-party provider is found by its entry point, configured from its own table, and served like a built-in one."""

from pathlib import Path

import pytest

from holdfast.config import parse_config
from holdfast.kernel.errors import ConfigInvalid
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from tests.memory.third_party import BOOKS
from tests.support.fakes import ScriptedModel, soon
from tests.support.memory_runtimes import settled
from tests.support.memory_world import all_deliveries

METADATA = "Metadata-Version: 2.1\nName: holdfast-book\nVersion: 1.0\n"
ENTRY_POINTS = "[holdfast.providers]\nbook = tests.memory.third_party:make_book\n"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution on the path, as installing one leaves it there."""
    info = tmp_path / "site" / "holdfast_book-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(info.parent))
    BOOKS.clear()


async def opened(folder: Path, table: str) -> Runtime:
    config = parse_config(f"[agents.main]\n{table}\n".encode(), folder / "holdfast.toml")
    return await open_runtime(folder / "data", agents=make_agents(model=ScriptedModel(), listed=config.agents))


async def test_a_provider_of_somebody_else_gets_its_turns(tmp_path, installed):
    table = '[agents.main.memory.book]\nbook = "diary"\nevery_turns = 2\n[agents.main.memory.local]'
    async with await opened(tmp_path, table) as runtime:
        for text in ("one", "two", "three", "/new"):
            await soon(runtime.ask("c", text))
        await settled(runtime)
        assert BOOKS == {"diary": ["one", "two", "three"]}
        found = await all_deliveries(runtime, provider="book")
        assert [(one.state, one.from_turn, one.through_turn) for one in found] == [
            ("delivered", 1, 2),
            ("delivered", 3, 3),
        ]
        assert len(await all_deliveries(runtime, provider="local")) == 3


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("[agents.main.memory.nosuch]", "agents.main.memory.nosuch", "there is no provider 'nosuch'"),
        ("[agents.main.memory.book]", "agents.main.memory.book", "book must be the name of a book"),
        ("[agents.main.memory.book]\nbook = 7", "agents.main.memory.book", "book must be the name of a book"),
        ("[agents.main.memory.honcho]\nurl = 7", "agents.main.memory.honcho", "url"),
    ],
)
async def test_a_table_that_cannot_be_right_is_refused_at_the_start_by_its_key(tmp_path, installed, table, key, said):
    with pytest.raises(ConfigInvalid, match=key) as refused:
        await opened(tmp_path, table)
    assert said in str(refused.value)
    assert refused.value.context["key"] == key


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("no_such_module:make", "ModuleNotFoundError"),
        ("tests.memory.third_party:nothing", "cannot be loaded"),
        ("builtins:list", "could not be made"),
        ("builtins:repr", "not a Configured"),
    ],
)
async def test_a_provider_that_is_not_one_is_refused_by_its_key(tmp_path, installed, entry, said):
    points = tmp_path / "site" / "holdfast_book-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"[holdfast.providers]\nodd = {entry}\n")
    with pytest.raises(ConfigInvalid, match=r"agents\.main\.memory\.odd") as refused:
        await opened(tmp_path, "[agents.main.memory.odd]")
    assert said in str(refused.value)


async def test_an_unknown_provider_is_answered_with_those_that_exist(tmp_path, installed):
    with pytest.raises(ConfigInvalid, match="known are book, files, hermes, hindsight, honcho, local"):
        await opened(tmp_path, "[agents.main.memory.nosuch]")


async def test_a_refused_configuration_leaves_the_folder_free(tmp_path, installed):
    with pytest.raises(ConfigInvalid):
        await opened(tmp_path, "[agents.main.memory.nosuch]")
    async with await opened(tmp_path, '[agents.main.memory.book]\nbook = "diary"') as runtime:
        await soon(runtime.ask("c", "hello"))
        await settled(runtime)
    assert BOOKS == {"diary": ["hello"]}
