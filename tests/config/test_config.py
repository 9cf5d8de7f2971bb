"""A valid configuration becomes a policy; an invalid one is refused with file, key, value and fix."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from holdfast.config import AgentTable, Config, ServerTable, load_config, parse_config
from holdfast.config.draft import TEMPLATE
from holdfast.kernel.errors import AllowlistNotImmutable, ConfigInvalid
from holdfast.outbox.post import OnDoubt
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy, Arrivals, Door, GroupPolicy, Sharing

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
        ("[agents.main]\nmodle = 'practice'", "agents.main.modle", '"practice"', "valid keys are model"),
        ("[agents.main]\nmodel = 5", "agents.main.model", "5", '"practice"'),
        ("[agent.main]", "agent", '{"main":{}}', "did you mean agents?"),
        ("[server]\nprot = 1\n[agents.main]", "server.prot", "1", "did you mean port?"),
        ("[server]\nport = 70000\n[agents.main]", "server.port", "70000", "it must be a whole number <= 65535"),
        ("[server]\nport = 'abc'\n[agents.main]", "server.port", '"abc"', "a whole number, such as port = 7420"),
        ("[agents.x]\nmemory = ['local']", "agents.x.memory", '["local"]', "write [agents.x.memory.local]"),
        ("[agents.x]\nchannels = 'telegram'", "agents.x.channels", '"telegram"', "write [agents.x.channels.telegram]"),
        ("server = 1\n[agents.main]", "server", "1", "[server]"),
        ("[server]\nhost = 'example.org'\n[agents.main]", "server.host", '"example.org"', "use an IP address"),
        (
            "[server]\npublic_hosts = ['https://a.org']\n[agents.main]",
            "server.public_hosts",
            '"https://a.org"',
            "the host name alone",
        ),
        ("[server]\ntrusted_proxies = ['proxy']\n[agents.main]", "server.trusted_proxies", '"proxy"', "10.0.0.0/8"),
        (
            "[server.limits]\noperator_connections = 800",
            "server.limits.operator_connections",
            "800",
            "below connections_max, which is 800",
        ),
        (
            "[server.limits]\nhalf_open_max = 801",
            "server.limits.half_open_max",
            "801",
            "not be above connections_max, which is 800",
        ),
        ("[agents.main]\ntools = ['memroy']", "agents.main.tools[0]", '"memroy"', "did you mean memory?"),
        ("[agents.main]\non_doubt = 'resent'", "agents.main.on_doubt", '"resent"', "one of resend, hold; did you mean"),
        ("[agents.main]\nhops_max = -1", "agents.main.hops_max", "-1", ">= 0"),
        ("[agents.main]\ndaily_spend_usd = -0.5", "agents.main.daily_spend_usd", "-0.5", ">= 0"),
        ("[agents.main.groups]\nthreads = 'mine'", "agents.main.groups.threads", '"mine"', "shared, per_user"),
        ("[agents.main.acess]\ndoor = 'open'", "agents.main.acess", '{"door":"…"}', "did you mean access?"),
        ("[agents.main.access]\ndoor = 'opne'", "agents.main.access.door", '"opne"', "did you mean open?"),
        ("[agents.main.approval]\nwait_minutes = 0", "agents.main.approval.wait_minutes", "0", ">= 1"),
        (
            "[agents.main.channels]\ntelegram = 5",
            "agents.main.channels",
            '{"telegram":5}',
            "write [agents.main.channels.telegram]",
        ),
        ("[agents.main.channels.'../x']", "agents.main.channels.../x", '"../x"', "letters, digits"),
        ("[agents.main.memory.CON]", "agents.main.memory.CON", '"CON"', "Windows"),
        ("[agents.'../x']", "agents.../x", '"../x"', "letters, digits"),
        ("[agents.CON]", "agents.CON", '"CON"', "Windows"),
        ("[agents.'a.']", "agents.a.", '"a."', "Windows"),
        ("[agents.ada]\n[agents.Ada]", "agents.Ada", '"Ada"', "differs from ada only in case"),
        ("[agents.main]\ninstructions_file = 'no.md'", "agents.main.instructions_file", '"no.md"', "No such file"),
        ("[agents.main]\ninstructions_file = '.'", "agents.main.instructions_file", '"."', "not a file"),
        (
            "[agents.main]\ninstructions = 'a'\ninstructions_file = 'b'",
            "agents.main.instructions_file",
            '"b"',
            "keep one",
        ),
        (
            "[agents.main]\ncontext_tokens = '5'",
            "agents.main.context_tokens",
            '"5"',
            "it must be a whole number, such as context_tokens = 128000",
        ),
        ("[agents.main]\ncontext_tokens = 0", "agents.main.context_tokens", "0", ">= 256"),
        ("[agents.main]\ninstructions = 5", "agents.main.instructions", "5", "it must be a text in quotes"),
        ("[agents.main]\nlimits = 5", "agents.main.limits", "5", "it must be a table: write [agents.main.limits]"),
        (
            "[agents.main.compression]\nsofft = 0.5",
            "agents.main.compression.sofft",
            "0.5",
            "valid keys are soft, hard, keep",
        ),
        ("[agents.main.compression]\nsoft = 0.9", "agents.main.compression.soft", "0.9", "below hard"),
        ("[agents.main.compression]\nsoft = 0.85", "agents.main.compression.soft", "0.85", "below hard"),
        ("[agents.main.compression]\nkeep = 0.9", "agents.main.compression.keep", "0.9", "below hard"),
        ("[agents.main.compression]\nhard = 1.1", "agents.main.compression.hard", "1.1", "<= 1"),
        ("[agents.main.compression]\nsoft = 0", "agents.main.compression.soft", "0", "> 0"),
        ("[agents.main.compression]\nsoft = nan", "agents.main.compression.soft", "null", "a number"),
        ("[agents.main.turns]\narrivals = 'drop'", "agents.main.turns.arrivals", '"drop"', "queue, steer, interrupt"),
        ("[agents.main.turns]\nmodel_wait_s = -1", "agents.main.turns.model_wait_s", "-1", "> 0"),
        ("[agents.main.limits]\nmessage_bytes = 0", "agents.main.limits.message_bytes", "0", ">= 1"),
        (
            "[agents.main.limits]\nmessage_bytes = true",
            "agents.main.limits.message_bytes",
            "true",
            "it must be a whole number",
        ),
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


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b"[agents.main]\nx = = 1", "line 2, column 5"),
        (b"[agents.main]\nx = [", "line 2, column 6"),
        (b"[agents.main]\nx = 1\nx = 2", "line 3, column 6"),
        (b"[agents.main]\n# \xff", "line 2, column 3"),
    ],
)
def test_what_is_no_toml_is_shown_by_line_and_column(raw, where):
    with pytest.raises(ConfigInvalid) as caught:
        parse_config(raw, FILE)
    assert str(caught.value).startswith(f"{FILE}, {where}: ")


def test_a_file_with_a_server_only_takes_no_agent_away():
    found = read("[server]\nport = 7421")
    assert (found.agents, found.server.port, found.file) == (None, 7421, FILE)


def test_a_file_that_is_not_there_is_looked_for_in_a_folder_that_has_a_name():
    with pytest.raises(ConfigInvalid, match=re.escape(f"it cannot be read from {Path.cwd()}: ")):
        read("[agents.main]\ninstructions_file = 'no.md'")


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


# --- people ------------------------------------------------------------------------------------------


IMPOSTORS = (
    *("@bob", "telegram:@bob", "telegram:bob", "discord:bob#1234", "slack:U1", "slack:@bob", "*", "telegram:*", ""),
    *("a:", "matrix:@bob", "telegram:1 2", "telegram:\u0663"),
)


@pytest.mark.parametrize("entry", IMPOSTORS)
@pytest.mark.parametrize("key", ["access.allow", "approval.approvers"])
def test_somebody_named_by_what_they_can_give_away_is_refused(entry, key):
    table, _, name = key.partition(".")
    with pytest.raises(AllowlistNotImmutable) as caught:
        read(f"[agents.main.{table}]\n{name} = ['telegram:1', '{entry}']")
    assert str(caught.value).startswith(f"{FILE}: agents.main.{key}: {entry!r} is not an immutable id")


def test_immutable_ids_and_their_chats_are_taken():
    main = one("[agents.main.access]\nallow = ['telegram:1', 'discord:80351110224678912', 'slack:T1.U2', 'matrix:x1']")
    assert main.access.allow == {"telegram:1", "discord:80351110224678912", "slack:T1.U2", "matrix:x1"}
    main = one("[agents.main.access]\nallow_chats = ['telegram:-1001', 'slack:C024']\ngroup_door = 'pair'")
    assert main.access.allow_chats == {"telegram:-1001", "slack:C024"}
    assert main.access.group_door is Door.PAIR
    with pytest.raises(AllowlistNotImmutable, match="allow_chats"):
        read("[agents.main.access]\nallow_chats = ['telegram:@ourgroup']")


def test_the_door_asks_unless_said_and_a_group_is_closed():
    assert (one("[agents.main]").access.door, one("[agents.main]").access.group_door) == (Door.PAIR, Door.CLOSED)


# --- secrets -----------------------------------------------------------------------------------------

SECRET = "8714:AAH-canary_of_a_token-93kd"


@pytest.mark.parametrize(
    "key",
    [
        "[agents.main.channels.telegram]\ntoken",
        "[agents.main.channels.slack]\napp_token",
        "[agents.main.model]\napi_key",
        "[agents.main.memory.honcho]\napi_key",
        "[agents.main.mcp.git.env]\nGITHUB_TOKEN",
        "[agents.main]\npassword",
        "[server]\nsecret",
        "[[other]]\ntoken",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(key):
    with pytest.raises(ConfigInvalid) as caught:
        read(f"{key} = '{SECRET}'\n[agents.other]")
    said = str(caught.value)
    name = key.rpartition("\n")[2]
    assert f"write {name}_env = ... or {name}_file = ..." in said
    assert "canary" not in said + str(caught.value.context)


@pytest.mark.parametrize("key", ["tokne", "api_kye", "modle", "x", "channels", "memory"])
def test_a_secret_under_a_misspelt_key_is_not_repeated(key):
    with pytest.raises(ConfigInvalid) as caught:
        read(f"[agents.main]\n{key} = '{SECRET}'")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("token_env = 'BOT'", "token_env = 'BOT'"),
        ("token_file = 'bot.txt'", "token_file = './bot.txt'"),
        ("token_env = 'A'\napp_token_env = 'BOT'", "token_env = 'B'\napp_token_env = 'BOT'"),
    ],
)
def test_one_bot_for_two_agents_is_refused(one, other):
    with pytest.raises(ConfigInvalid, match=r"duplicate token: agents\.a\.channels\.slack"):
        read(f"[agents.a.channels.slack]\n{one}\n[agents.b.channels.slack]\n{other}")


def test_two_kinds_of_channels_may_name_one_variable():
    text = "[agents.a.channels.slack]\ntoken_env = 'X'\n[agents.b.channels.telegram]\ntoken_env = 'X'"
    assert len(read(text).agents or {}) == 2


# --- the rest ----------------------------------------------------------------------------------------


def one(text: str) -> AgentPolicy:
    agents = read(text).agents
    assert agents is not None
    return agents["main"]


def test_a_model_is_a_name_or_a_table_and_chosen_automatically_by_default():
    assert one("[agents.main]").model == {}
    assert one("[agents.main]\nmodel = 'openai:gpt-5.2'").model == {"name": "openai:gpt-5.2"}
    table = one("[agents.main.model]\nname = 'ollama:x'\nbase_url = 'http://127.0.0.1:11434/v1'").model
    assert table == {"name": "ollama:x", "base_url": "http://127.0.0.1:11434/v1"}


def test_paths_begin_at_the_folder_of_the_file(tmp_path):
    (tmp_path / "SOUL.md").write_bytes("\ufeffYou are Ada.\n".encode())
    text = "[agents.main]\ninstructions_file = 'SOUL.md'\n[agents.main.model]\nname = 'x:y'\napi_key_file = 'key'"
    agents = parse_config(text.encode(), tmp_path / "holdfast.toml").agents
    assert agents is not None
    assert agents["main"].instructions == "You are Ada.\n"
    assert agents["main"].model["api_key_file"] == str(tmp_path / "key")


@pytest.mark.parametrize(("raw", "why"), [(b"\xff", "not UTF-8"), (b"x" * (256 * 1024 + 1), "larger than")])
def test_instructions_that_are_no_text_are_refused(tmp_path, raw, why):
    (tmp_path / "SOUL.md").write_bytes(raw)
    with pytest.raises(ConfigInvalid, match=why):
        parse_config(b"[agents.main]\ninstructions_file = 'SOUL.md'", tmp_path / "holdfast.toml")


def test_every_new_table_reaches_the_policy():
    main = one(
        """
        [agents.main]
        daily_spend_usd = 1.5
        tools = ["memory", "history"]
        hops_max = 3
        on_doubt = "hold"
        [agents.main.groups]
        groups = "per_user"
        threads = "per_user"
        mention_only = false
        observe = false
        [agents.main.access]
        door = "closed"
        [agents.main.approval]
        tools = ["send_message", "*"]
        approvers = ["telegram:1", "ada"]
        wait_minutes = 2
        [agents.main.channels.telegram]
        token_env = "T"
        poll_s = 3
        [agents.main.mcp.time]
        command = ["x"]
        """
    )
    assert (main.daily_spend_micros, main.tools, main.hops_max) == (1_500_000, ("memory", "history"), 3)
    assert main.on_doubt is OnDoubt.HOLD
    assert main.groups == GroupPolicy(
        groups=Sharing.PER_USER, threads=Sharing.PER_USER, mention_only=False, observe=False
    )
    assert main.access.door is Door.CLOSED
    assert main.approval == ApprovalPolicy(
        tools=frozenset({"send_message", "*"}), approvers=frozenset({"telegram:1", "ada"}), wait_ms=120_000
    )
    assert main.channels == {"telegram": {"token_env": "T", "poll_s": 3}}
    assert main.mcp == {"time": {"command": ["x"]}}


def test_the_server_is_configured_or_left_to_its_defaults():
    assert read("[agents.main]").server == ServerTable()
    server = read("[server]\nhost = '::1'\nport = 1\ntrusted_proxies = ['10.0.0.0/8']\n[agents.main]").server
    assert (server.host, server.port, server.trusted_proxies) == ("::1", 1, ("10.0.0.0/8",))


# --- what `holdfast init` writes ---------------------------------------------------------------------

WITHOUT_HASHES = re.sub(r"^#(?=[\w\[])", "", TEMPLATE, flags=re.MULTILINE)
EXAMPLES = {"talks_to", "instructions", "daily_spend_usd", "tools", "expiry", "access", "approval"}  # not defaults


def test_the_template_is_read_as_it_stands():
    assert set(read(TEMPLATE).agents or {}) == {"main"}
    assert one(TEMPLATE) == AgentPolicy(instructions="You are helpful and brief.")


def test_the_template_is_read_with_every_setting_taken_out_of_its_comment(tmp_path):
    (tmp_path / "SOUL.md").write_text("You help.", encoding="utf-8")
    agents = parse_config(WITHOUT_HASHES.encode(), tmp_path / "holdfast.toml").agents
    assert agents is not None
    assert agents["helper"].instructions == "You help."
    assert set(agents["main"].channels) == {"telegram", "discord", "slack"}


def test_the_template_shows_every_setting_and_its_default():
    shown = tomllib.loads(WITHOUT_HASHES)
    assert set(shown["server"]) == set(ServerTable.__struct_fields__)
    main = shown["agents"]["main"] | {"instructions_file": ""}
    assert set(main) == set(AgentTable.__struct_fields__)
    defaults = msgspec.to_builtins(AgentTable())
    for name, value in main.items():
        if isinstance(defaults[name], dict) and name not in {"model", "channels", "mcp"}:
            assert set(value) == set(defaults[name]), name
        if name not in EXAMPLES | {"model", "channels", "mcp", "memory", "instructions_file"}:
            assert value == defaults[name], name
