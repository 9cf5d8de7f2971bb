"""An agent has the settings of [defaults] unless it says otherwise, and refers to [models.NAME] by name."""

from pathlib import Path

import pytest

from holdfast.config import parse_config
from holdfast.config.reading import Config, read_config
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.machine import AsyncTasks
from holdfast.models.choose import make_models
from holdfast.runtime.inspection import Inspector
from holdfast.turns.policy import AgentPolicy, Arrivals, Door

FILE = Path("holdfast.toml")


def read(text: str) -> Config:
    return parse_config(text.encode(), FILE)


def agent(text: str, name: str = "a") -> AgentPolicy:
    return (read(text).agents or {})[name]


def errors(text: str) -> list[str]:
    return [str(one) for one in read_config(text.encode(), FILE).problems]


def test_an_agent_has_the_settings_of_defaults_unless_it_says_otherwise():
    text = """
    [defaults]
    instructions = "Be brief."
    context_tokens = 32000
    [defaults.compression]
    hard = 0.8
    keep = 0.1
    [defaults.access]
    door = "closed"
    [defaults.turns]
    arrivals = "steer"
    [agents.a]
    [agents.b]
    instructions = "Be long."
    [agents.b.compression]
    keep = 0.2
    """
    a, b = agent(text, "a"), agent(text, "b")
    assert (a.instructions, b.instructions) == ("Be brief.", "Be long.")
    assert (a.thresholds.keep, b.thresholds.keep) == (0.1, 0.2)
    for one in (a, b):
        assert (one.thresholds.hard, one.thresholds.context_tokens) == (0.8, 32_000)
        assert (one.access.door, one.turn.arrivals) == (Door.CLOSED, Arrivals.STEER)


def test_a_list_is_replaced_and_not_joined():
    text = "[defaults]\ntools = ['memory', 'recall']\n[agents.a]\ntools = ['history']\n[agents.b]"
    assert (agent(text, "a").tools, agent(text, "b").tools) == (("history",), ("memory", "recall"))


def test_providers_and_servers_of_defaults_join_those_of_the_agent_and_false_leaves_one_out():
    text = """
    [defaults.memory]
    sharing = "agent"
    [defaults.memory.honcho]
    url = "http://127.0.0.1:8000"
    [defaults.mcp.git]
    command = ["git-server"]
    [agents.a.memory.local]
    [agents.a.memory.honcho]
    workspace = "mine"
    [agents.b]
    mcp.git = false
    memory.honcho = false
    """
    a, b = agent(text, "a"), agent(text, "b")
    assert a.memory == {"honcho": {"url": "http://127.0.0.1:8000", "workspace": "mine"}, "local": {}}
    assert a.mcp == {"git": {"command": ["git-server"]}}
    assert (b.memory, b.mcp) == (None, {})
    assert b.recall.shares_all


def test_an_empty_table_keeps_the_settings_of_defaults():
    text = "[defaults.memory.honcho]\nurl = 'x'\n[agents.a.memory.honcho]\n[agents.b]\nmemory = {}"
    assert agent(text).memory == agent(text, "b").memory == {"honcho": {"url": "x"}}


def test_instructions_and_their_file_replace_each_other(tmp_path):
    (tmp_path / "SOUL.md").write_text("You are Ada.", encoding="utf-8")
    text = b"[defaults]\ninstructions = 'x'\n[agents.a]\ninstructions_file = 'SOUL.md'\n[agents.b]"
    agents = parse_config(text, tmp_path / FILE).agents or {}
    assert (agents["a"].instructions, agents["b"].instructions) == ("You are Ada.", "x")
    text = b"[defaults]\ninstructions_file = 'SOUL.md'\n[agents.a]\ninstructions = 'x'\n[agents.b]"
    agents = parse_config(text, tmp_path / FILE).agents or {}
    assert (agents["a"].instructions, agents["b"].instructions) == ("x", "You are Ada.")


def test_an_agent_is_left_out_of_the_talks_to_of_defaults():
    text = "[defaults]\ntalks_to = ['a', 'b']\n[agents.a]\n[agents.b]"
    assert (agent(text, "a").talks_to, agent(text, "b").talks_to) == (("b",), ("a",))


MODELS = """
[models.fast]
name = "openai:gpt-5-mini"
api_key_env = "FAST_KEY"
temperature = 0.5
[models.deep]
name = "anthropic:claude-sonnet-5-5"
fallbacks = ["fast"]
summariser = "fast"
"""


def test_agents_refer_to_a_model_by_its_name():
    text = MODELS + "[defaults]\nmodel = 'fast'\n[agents.a]\n[agents.b]\nmodel = 'deep'\n[agents.c]\nmodel = 'practice'"
    fast = {"name": "openai:gpt-5-mini", "api_key_env": "FAST_KEY", "temperature": 0.5}
    assert agent(text, "a").model == fast
    assert agent(text, "b").model["name"] == "anthropic:claude-sonnet-5-5"
    assert agent(text, "c").model == {"name": "practice"}


def test_an_agent_changes_single_settings_of_a_named_model():
    text = MODELS + "[defaults]\nmodel = 'fast'\n[agents.a.model]\ntemperature = 0.0\n[agents.b.model]\nname = 'fast'\n"
    assert agent(text, "a").model == {"name": "openai:gpt-5-mini", "api_key_env": "FAST_KEY", "temperature": 0.0}
    assert agent(text, "b").model["api_key_env"] == "FAST_KEY"


def test_a_model_that_the_agent_names_has_no_settings_of_the_model_of_defaults():
    text = "[defaults.model]\nname = 'openai:gpt-5.2'\ntemperature = 0.1\n[agents.a.model]\nname = 'ollama:x'"
    assert agent(text).model == {"name": "ollama:x"}


async def test_a_fallback_by_name_has_the_key_and_the_address_of_its_own_table():
    policy = agent(MODELS + "[agents.a]\nmodel = 'deep'")
    with pytest.raises(
        ConfigInvalid, match=r"models\.fast\.name is 'openai:gpt-5-mini': the environment has no FAST_KEY"
    ):
        make_models(policy, {"ANTHROPIC_API_KEY": "k"}, AsyncTasks())
    model, summariser = make_models(policy, {"ANTHROPIC_API_KEY": "k", "FAST_KEY": "f"}, AsyncTasks())
    assert (model.name, summariser.name) == ("anthropic:claude-sonnet-5-5", "openai:gpt-5-mini")


def test_the_key_file_of_a_named_model_is_found_from_the_folder_of_the_configuration(tmp_path):
    text = b"[models.x]\nname = 'openai:y'\napi_key_file = 'key'\n[agents.a]\nmodel = 'x'"
    agents = parse_config(text, tmp_path / FILE).agents or {}
    assert agents["a"].model["api_key_file"] == str(tmp_path / "key")


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[defaults]\ncontext_tokns = 5", "defaults.context_tokns = 5: unknown key; did you mean context_tokens?"),
        ("[defaults]\ncontext_tokens = 5", "defaults.context_tokens = 5: it must be a whole number >= 256"),
        ("[defaults.compression]\nsoft = 0.9", "defaults.compression.soft = 0.9: it must be below hard"),
        ("[defaults.channels.telegram]\ntoken_env = 'X'", "a bot account serves one agent"),
        ("[defaults]\nmodel = 'fats'\n[models.fast]\nname = 'x:y'", "did you mean fast? there are: fast"),
        (
            "[models.fast]\nname = 'x:y'\nsummariser = 'deep'",
            'models.fast.summariser = "deep": there is no table [models',
        ),
        ("[models.fast]\n", "models.fast.name is missing"),
        ("[models.fast]\nname = 5", "models.fast.name must be a text"),
        ("[models.practice]\nname = 'x:y'", "practice is the offline model"),
        ("[models.'a b']\nname = 'x:y'", "letters, digits"),
        ("[models]\nfast = 'x:y'", "it must be a table, [models.fast]"),
        ("[defaults.access]\nallow = ['bob']", "'bob' is not an immutable id"),
        ("[defaults]\ninstructions_file = 'no.md'", "defaults.instructions_file"),
    ],
)
def test_one_mistake_is_one_error_however_many_agents_take_it_over(text, said):
    (error,) = errors(f"{text}\n[agents.a]\n[agents.b]\n[agents.c]")
    assert said in error


@pytest.mark.parametrize("text", ["defaults = 1", "models = 1"])
def test_defaults_and_models_are_tables(text):
    (error,) = errors(f"{text}\n[agents.a]")
    assert error.startswith(f"{FILE}: {text}: it must")


def test_defaults_alone_are_no_agent():
    (error,) = errors("[defaults]\ncontext_tokens = 1000")
    assert "add a table [agents.main]" in error


async def found(text: str, folder: Path, **environment: str) -> list[str]:
    read = read_config(text.encode(), FILE)
    inspection = await Inspector(read.config, folder, environment, found=read.problems).inspect()
    return [str(one).removeprefix(f"{FILE}: ") for one in inspection.problems]


async def test_a_missing_key_of_a_shared_model_is_one_error(tmp_path):
    agents = "".join(f"[agents.a{n}]\n" for n in range(10))
    (error,) = await found(f"{MODELS}[defaults]\nmodel = 'fast'\n{agents}", tmp_path, ANTHROPIC_API_KEY="k")
    assert error.startswith("models.fast.name is 'openai:gpt-5-mini': the environment has no FAST_KEY")


async def test_a_mistake_in_a_shared_provider_and_server_is_one_error(tmp_path):
    text = "[defaults.memory.honcho]\nurll = 'x'\n[defaults.mcp.git]\ncommand = ['no-such-program']\n"
    said = await found(f"{text}[agents.a]\n[agents.b]\n[agents.c]\nmodel = 'practice'", tmp_path)
    assert [one.partition(" ")[0].rstrip(":") for one in said] == ["defaults.memory.honcho", "defaults.mcp.git.command"]


async def test_a_mistake_that_an_agent_makes_itself_names_the_agent(tmp_path):
    text = "[defaults.mcp.git]\ncommand = ['git']\n[agents.a.mcp.git]\ncommand = ['no-such-program']\n[agents.b]"
    (error,) = await found(text, tmp_path, PATH="/usr/bin:/bin")
    assert error.startswith("agents.a.mcp.git.command")


async def test_a_mistake_in_a_model_that_no_agent_uses_is_found(tmp_path):
    (error,) = await found("[models.x]\nname = 'opnai:y'\n[agents.a]\nmodel = 'practice'", tmp_path)
    assert error.startswith("models.x.name is 'opnai:y'")


async def test_everything_is_found_at_once(tmp_path):
    text = """
    [server]
    prot = 1
    host = "example.org"
    [defaults]
    context_tokens = 1
    [models.fast]
    name = "openai:x"
    api_key = "sk-123"
    [agents.a]
    modle = "x"
    tools = ["memroy", "recal", "history"]
    talks_to = ["nobody"]
    [agents.a.access]
    allow = ["bob", "telegram:1", "eve"]
    operators = ["carl"]
    [agents.b]
    expiry.time_zone = "Mars"
    [agents.b.channels.telegram]
    token_env = "BOT"
    [agents.c.channels.telegram]
    token_env = "BOT"
    [agnts]
    """
    wanted = (
        "models.fast.api_key = (not shown)",
        "agnts = {}",
        "server.prot = 1",
        'server.host = "example.org"',
        "defaults.context_tokens = 1",
        "agents.a.modle",
        'agents.a.tools[0] = "memroy"',
        'agents.a.tools[0] = "recal"',
        "agents.a.access.allow: 'bob'",
        "agents.a.access.allow: 'eve'",
        "agents.a.access.operators: 'carl'",
        'agents.b.expiry.time_zone = "Mars"',
        "agents.c.channels.telegram.token_env: duplicate token",
        "agents.a.talks_to names 'nobody'",
    )
    said = await found(text, tmp_path, OPENAI_API_KEY="k")
    for one in wanted:
        assert len([each for each in said if each.startswith(one)]) == 1, (one, said)
    others = [one for one in said if not one.startswith(wanted)]
    assert all("BOT" in one for one in others), others  # the two tokens are not in the environment


def test_the_error_of_a_reading_carries_the_others():
    with pytest.raises(ConfigInvalid) as caught:
        read("[agents.a]\nx = 1\ny = 2")
    assert [str(one).partition(" = ")[0] for one in (caught.value, *caught.value.others)] == [
        "holdfast.toml: agents.a.x",
        "holdfast.toml: agents.a.y",
    ]
