"""The configuration: what is right becomes a policy, what is wrong names file, key, value and fix."""

from pathlib import Path

import pytest

from holdfast.config import Config, load_config, parse_config
from holdfast.core.errors import ConfigInvalid
from holdfast.core.policy import AgentPolicy, Arrivals

FILE = Path("holdfast.toml")
WHOLE = """
[agents.main]
model = "practice"
instructions = "Be brief."
context_tokens = 32000
[agents.main.compression]
soft = 0.5
hard = 0.8
keep = 0.2
[agents.main.turns]
arrivals = "steer"
turn_attempts_max = 3
model_wait_s = 2.5
[agents.main.limits]
message_bytes = 1000
mailbox_depth = 20
messages_per_minute = 30
[agents.ada]
"""


def read(text: str) -> Config:
    return parse_config(text.encode(), FILE)


def test_without_a_file_every_agent_exists():
    assert load_config(None) == Config(file=None, agents=None)
    assert load_config(None).message_bytes_max == AgentPolicy().limits.message_bytes_max


def test_every_setting_reaches_the_policy():
    agents = read(WHOLE).agents
    assert agents is not None
    main = agents["main"]
    assert main.instructions == "Be brief."
    assert (main.thresholds.context_tokens, main.thresholds.soft) == (32_000, 0.5)
    assert (main.thresholds.hard, main.thresholds.keep) == (0.8, 0.2)
    assert main.turn.arrivals is Arrivals.STEER
    assert (main.turn.turn_attempts_max, main.turn.model_wait_ms) == (3, 2_500)
    assert main.limits.message_bytes_max == 1_000
    assert (main.limits.mailbox_depth_max, main.limits.window_messages_max) == (20, 30)


def test_what_is_not_said_is_the_default():
    agents = read(WHOLE).agents
    assert agents is not None
    assert agents["ada"] == AgentPolicy()


def test_the_largest_message_is_that_of_the_most_generous_agent():
    assert read(WHOLE).message_bytes_max == AgentPolicy().limits.message_bytes_max


@pytest.mark.parametrize(
    ("text", "key", "value", "fix"),
    [
        ("port = 7420", "port", "7420", "[agents.NAME]"),
        ("[agents.main]\nmodle = 'practice'", "agents.main.modle", '"practice"', "known are model"),
        ("[agents.main]\nmodel = 'gpt-5'", "agents.main.model", '"gpt-5"', '"practice"'),
        ("[agents.main]\ncontext_tokens = '5'", "agents.main.context_tokens", '"5"', "`int`"),
        ("[agents.main]\ncontext_tokens = 0", "agents.main.context_tokens", "0", ">= 256"),
        ("[agents.main]\ninstructions = 5", "agents.main.instructions", "5", "`str`"),
        ("[agents.main]\nlimits = 5", "agents.main.limits", "5", "`object`"),
        (
            "[agents.main.compression]\nsofft = 0.5",
            "agents.main.compression.sofft",
            "0.5",
            "known are soft, hard, keep",
        ),
        ("[agents.main.compression]\nsoft = 0.9", "agents.main.compression.soft", "0.9", "below hard"),
        ("[agents.main.compression]\nsoft = 0.85", "agents.main.compression.soft", "0.85", "below hard"),
        ("[agents.main.compression]\nkeep = 0.9", "agents.main.compression.keep", "0.9", "below hard"),
        ("[agents.main.compression]\nhard = 1.1", "agents.main.compression.hard", "1.1", "<= 1"),
        ("[agents.main.compression]\nsoft = 0", "agents.main.compression.soft", "0", "> 0"),
        ("[agents.main.compression]\nsoft = nan", "agents.main.compression.soft", "null", "float"),
        ("[agents.main.turns]\narrivals = 'drop'", "agents.main.turns.arrivals", '"drop"', "queue, steer, interrupt"),
        ("[agents.main.turns]\nmodel_wait_s = -1", "agents.main.turns.model_wait_s", "-1", "> 0"),
        ("[agents.main.limits]\nmessage_bytes = 0", "agents.main.limits.message_bytes", "0", ">= 1"),
        ("[agents.main.limits]\nmessage_bytes = true", "agents.main.limits.message_bytes", "true", "`int`"),
        ("[agents]\nmain = 3", "agents.main", "3", "[agents.main]"),
        ("[agents.'two words']", "agents.two words", '"two words"', "letters, digits"),
    ],
)
def test_an_error_names_file_key_value_and_fix(text, key, value, fix):
    with pytest.raises(ConfigInvalid) as caught:
        read(text)
    said = str(caught.value)
    assert said.startswith(f"{FILE}: {key} = {value}: ")
    assert fix in said


@pytest.mark.parametrize("text", ["", "agents = 3", "[agents]", "a = [", "\0"])
def test_a_file_without_agents_or_sense_is_refused(text):
    with pytest.raises(ConfigInvalid, match=r"holdfast\.toml"):
        read(text)


def test_a_file_that_is_not_utf8_is_refused():
    with pytest.raises(ConfigInvalid, match="UTF-8"):
        parse_config(b"\xff", FILE)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for file in (tmp_path, tmp_path / "missing.toml"):
        with pytest.raises(ConfigInvalid, match="cannot be read"):
            load_config(file)


def test_a_huge_file_is_refused(tmp_path):
    (tmp_path / "holdfast.toml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(ConfigInvalid, match="larger"):
        load_config(tmp_path / "holdfast.toml")
