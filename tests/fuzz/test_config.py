"""Every generated configuration is read, or refused with its file, its key and an allowed value."""

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.config import AgentTable, Config, ServerTable, parse_config
from holdfast.config.tables import CompressionTable, LimitsTable, TurnsTable
from holdfast.kernel.errors import AllowlistNotImmutable, ConfigInvalid
from holdfast.turns.policy import AccessPolicy, AgentPolicy

FILE = Path("holdfast.toml")
keys = st.sampled_from(
    [
        *AgentTable.__struct_fields__,
        *CompressionTable.__struct_fields__,
        *TurnsTable.__struct_fields__,
        *LimitsTable.__struct_fields__,
        *AccessPolicy.__struct_fields__,
        *ServerTable.__struct_fields__,
        *("token", "token_env", "api_key", "name"),
        *("agents", "main", "unknown", '"a b"', '"é"', '""', "a.b"),
    ]
)
values = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.sampled_from(
        ['""', '"queue"', '"practice"', "[]", "{}", "[1]", "1979-05-27", "inf", "nan", "'''a\n\n'''", '"\\u0000"']
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10).map(lambda text: f"'{text}'"),
)
tables = st.sampled_from(
    [
        *("[agents.main]", "[agents.main.compression]", "[agents.main.turns]", "[agents.main.limits]", "[agents]"),
        *("[agents.main.access]", "[agents.main.model]", "[agents.main.channels.telegram]", "[agents.main.mcp.x.env]"),
        *("[agents.other]", '[agents."no name"]', "[server]", "[[agents]]", "[agents.main.compression.soft]"),
    ]
)
lines = st.one_of(tables, st.builds("{} = {}".format, keys, values))
texts = st.lists(lines, max_size=10).map("\n".join)


def check(raw: bytes) -> None:
    try:
        config = parse_config(raw, FILE)
    except (ConfigInvalid, AllowlistNotImmutable) as error:
        refused = str(error)
    else:
        accepted(config)
        return
    assert refused.startswith("holdfast.toml")
    assert refused.encode()
    assert len(refused) < 2_000


def accepted(config: Config) -> None:
    for policy in (config.agents or {}).values():  # none where only the server is told of
        assert isinstance(policy, AgentPolicy)
        assert 0 <= policy.thresholds.keep < policy.thresholds.hard
        assert 0 < policy.thresholds.soft < policy.thresholds.hard <= 1
        assert policy.limits.message_bytes_max >= 1
        assert policy.turn.turn_attempts_max >= 1
        assert policy.turn.model_wait_ms >= 0


@given(texts)
@example("[agents.main]")
@example("agents = 1")
@example("[agents.main]\ncontext_tokens = " + "9" * 5_000)
@example("[agents.main]\nx = " + "[" * 5_000)
@example("[agents.main.compression]\nsoft = nan")
@example("[agents.main.compression]\nsoft = 0.9\nhard = 0.9")
@example("[agents.main]\ninstructions = '''" + "x" * 10_000)
@example("[agents.main.turns]\nmodel_wait_s = 1e-9")
@example("[agents.main]\ninstructions_file = '~nobody/x'")
@example('[agents.main]\ninstructions_file = "a\\u0000b"')
@example("[agents.main]\nmodel = {}\nmemory = {a = {}}\nchannels = {telegram = []}")
@example("[agents.main.access]\nallow = ['@bob', '\\']")
@example("[[agents]]\n[[agents.main]]")
def test_a_configuration_is_understood_or_refused_with_its_file(text):
    check(text.encode())


@given(st.binary(max_size=200))
@example(b"\xff\xfe[\0a\0")
@example(b"\xef\xbb\xbf[agents.main]")
def test_any_bytes_are_understood_or_refused(raw):
    check(raw)
