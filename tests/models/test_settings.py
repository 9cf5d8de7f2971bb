"""A wrong model table is refused before any request is sent: which key, which value, what to do, and never a secret."""

import json

import pytest

from holdfast.kernel.errors import ConfigInvalid, ModelFailed
from holdfast.kernel.machine import AsyncTasks
from holdfast.models import vendors
from holdfast.models.choose import Fallback, LazyModel, make_models
from holdfast.models.detect import OLLAMA, ask_ollama, detect_model, first_model, ollama_address
from holdfast.models.practice import PracticeModel
from holdfast.models.settings import ModelSettings, parse_settings
from holdfast.models.vendors import VENDORS
from holdfast.turns.policy import AgentPolicy
from tests.support.model_asking import ENVIRONMENT, ask
from tests.support.model_vendor import FakeVendor, hangs, page, status
from tests.support.patience import within

GPT, CLAUDE = "openai:gpt-5.2", "anthropic:claude-haiku-5-5"
EXAMPLE = 'write the vendor, a colon and the model, as in "openai:gpt-5.2", or "practice"'


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({}, 'model.name is missing; write the vendor and the model, as in "openai:gpt-5.2"'),
        ({"name": "gpt-5.2"}, f"model.name is 'gpt-5.2': {EXAMPLE}"),
        ({"name": "openai:"}, f"model.name is 'openai:': {EXAMPLE}"),
        ({"name": "openai:a b"}, f"model.name is 'openai:a b': {EXAMPLE}"),
        ({"name": 7}, "model.name is 7: Expected `str`, got `int`"),
        ({"name": "opena:m"}, "model.name is 'opena:m': 'opena' is not a vendor; did you mean openai?"),
        (
            {"name": "zzz:m"},
            f"model.name is 'zzz:m': 'zzz' is not a vendor; the vendors are {', '.join(VENDORS)}",
        ),
        ({"name": GPT, "temprature": 1}, "model.temprature is not a setting; did you mean temperature?"),
        (
            {"name": GPT, "api_key": "sk-secret"},
            (
                "model.api_key: a secret must not be in the configuration; "
                "name its place with api_key_env or api_key_file"
            ),
        ),
        (
            {"name": GPT, "api_key_env": "sk-secret 1"},
            "model.api_key_env: it must be the name of an environment variable, not the key itself",
        ),
        (
            {"name": GPT, "api_key_env": "A", "api_key_file": "b"},
            "model: set api_key_env or api_key_file, not both",
        ),
        ({"name": GPT, "api_key_file": ""}, "model.api_key_file is '': name the file that holds the key"),
        (
            {"name": GPT, "base_url": "ftp://x"},
            "model.base_url is 'ftp://x': it must start with http:// or https:// and a host",
        ),
        (
            {"name": GPT, "base_url": "http://169.254.169.254/v1"},
            (
                "model.base_url is 'http://169.254.169.254/v1': "
                "machines answer about themselves there; no service of yours does"
            ),
        ),
        (
            {"name": GPT, "base_url": "http://me:sesame@host/v1"},
            "model.base_url: it must hold no user and no password; use api_key_env",
        ),
        (
            {"name": "deepseek:m", "base_url": "http://host/v1"},
            "model.base_url is 'http://host/v1': deepseek has a fixed URL; remove this setting",
        ),
        (
            {"name": GPT, "fallbacks": [CLAUDE, GPT]},
            f"model.fallbacks is ['{CLAUDE}', '{GPT}']: {GPT} would be asked twice; name it once",
        ),
        (
            {"name": GPT, "fallbacks": ["practice", CLAUDE]},
            f"model.fallbacks is ['practice', '{CLAUDE}']: practice always answers, so name it last",
        ),
        ({"name": GPT, "fallbacks": ["x"]}, f"model.fallbacks[0] is 'x': {EXAMPLE}"),
        ({"name": GPT, "fallbacks": "x"}, "model.fallbacks is 'x': Expected `array`, got `str`"),
        ({"name": GPT, "summariser": "x"}, f"model.summariser is 'x': {EXAMPLE}"),
        ({"name": GPT, "temperature": 3}, "model.temperature is 3: Expected `float` <= 2.0"),
        ({"name": GPT, "max_output_tokens": 0}, "model.max_output_tokens is 0: Expected `int` >= 1"),
        ({"name": GPT, "first_token_wait_s": 0}, "model.first_token_wait_s is 0: Expected `float` > 0.0"),
        (
            {"name": GPT, "input_usd_per_million": 1.0},
            "model: set both input_usd_per_million and output_usd_per_million, or neither",
        ),
    ],
)
def test_a_wrong_table_says_which_key_which_value_and_what_to_do(table, what):
    with pytest.raises(ConfigInvalid) as caught:
        parse_settings(table)
    assert str(caught.value) == what
    assert "sesame" not in repr(caught.value.context)


def make(policy, environment=ENVIRONMENT, **more):
    return make_models(policy, environment, AsyncTasks(), **more)


def policy(daily=None, **table):
    return AgentPolicy(model=table, daily_spend_micros=daily)


def test_a_missing_key_names_the_variable_and_the_agent():
    with pytest.raises(ConfigInvalid) as caught:
        make(policy(name=GPT), {"OPENAI_API_KEY": "  "}, where="agents.fern.model")
    assert str(caught.value) == (
        f"agents.fern.model.name is '{GPT}': the environment has no OPENAI_API_KEY; set it to the key, "
        "or name another with api_key_env or api_key_file"
    )


def test_a_key_with_a_line_break_inside_is_refused_without_being_shown():
    with pytest.raises(ConfigInvalid) as caught:
        make(policy(name=GPT), {"OPENAI_API_KEY": "sk-a\nsk-b"})
    assert str(caught.value) == "model: OPENAI_API_KEY has characters that no API key has"


def test_a_key_may_stand_in_a_file(tmp_path):
    file = tmp_path / "key"
    file.write_text("sk-in-a-file\n", encoding="utf-8")
    model, _ = make(policy(name=GPT, api_key_file=str(file)), {})
    assert (model.name, "sk-in-a-file" in repr(model)) == (GPT, False)
    file.write_text("", encoding="utf-8")
    with pytest.raises(ConfigInvalid, match="the file is empty; put the key there"):
        make(policy(name=GPT, api_key_file=str(file)), {})
    with pytest.raises(ConfigInvalid, match="it cannot be read: No such file or directory"):
        make(policy(name=GPT, api_key_file=str(tmp_path / "none")), {})


def test_a_server_of_ones_own_needs_no_key():
    model, _ = make(policy(name=GPT, base_url="http://127.0.0.1:1/v1"), {})
    assert isinstance(model, LazyModel)


def test_a_missing_library_says_what_to_install(monkeypatch):
    monkeypatch.setattr(vendors, "find_spec", lambda name: None if name == "anthropic" else object())
    with pytest.raises(ConfigInvalid) as caught:
        make(policy(name=CLAUDE))
    assert str(caught.value) == (f"model.name is '{CLAUDE}': anthropic needs anthropic: install holdfast[models]")
    assert vendors.VENDORS["mistral"].install == "pip install 'pydantic-ai-slim[mistral]'"


def test_a_limit_on_spending_needs_a_price():
    with pytest.raises(ConfigInvalid) as caught:
        make(policy(5_000_000, name="openai:never-heard-of-it"))
    assert str(caught.value) == (
        "model: openai:never-heard-of-it: its price is not known, so a daily spending limit cannot be enforced; "
        "set input_usd_per_million and output_usd_per_million, or remove the limit"
    )
    make(policy(5_000_000, name=GPT, fallbacks=["ollama:llama3.2"], summariser=CLAUDE))
    make(policy(5_000_000, name="openai:mine", input_usd_per_million=0, output_usd_per_million=0))


def test_fallbacks_and_the_summariser_share_an_address_only_with_their_own_vendor():
    settings = parse_settings(
        {"name": GPT, "base_url": "http://127.0.0.1:1/v1", "api_key_env": "MINE", "fallbacks": [CLAUDE]}
    )
    assert settings.of("openai:other").base_url == settings.base_url
    assert (settings.of(CLAUDE).base_url, settings.of(CLAUDE).api_key_env) == (None, None)
    model, summariser = make(policy(name=GPT, fallbacks=[CLAUDE], summariser="openai:gpt-6-luna"))
    assert (model.name, summariser.name) == (GPT, "openai:gpt-6-luna")
    assert isinstance(model, Fallback)


def test_without_a_table_there_is_what_was_found_or_practice():
    assert isinstance(make(AgentPolicy())[0], PracticeModel)
    assert make(AgentPolicy(), found=ModelSettings(name=GPT))[0].name == GPT
    assert isinstance(make(policy(name="practice"), found=ModelSettings(name=GPT))[0], PracticeModel)


async def test_those_who_only_read_are_told_when_they_ask():
    model, _ = make_models(policy(name=GPT), {}, AsyncTasks(), lenient=True)
    with pytest.raises(ModelFailed, match="the environment has no OPENAI_API_KEY") as caught:
        await ask(model)
    assert caught.value.is_final


def test_the_defaults_have_a_price_and_are_known_to_the_library():
    from pydantic_ai.models import known_model_names

    for name in ("openai", "anthropic"):
        chosen = f"{name}:{VENDORS[name].default}"
        assert chosen in set(known_model_names())
        make(policy(1, name=chosen))


# --- available models --------------------------------------------------------------------------------


async def never(_address):
    raise AssertionError("no model may be asked")


async def test_a_key_in_the_environment_decides_without_asking_a_server():
    found = await detect_model({"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b"}, never)
    assert found.settings.name == f"openai:{VENDORS['openai'].default}"
    assert found.sentence == (
        f"OPENAI_API_KEY is set, so {found.settings.name} answers, and costs money. "
        "To choose another, run `holdfast init` and edit the table [agents.main.model]."
    )
    found = await detect_model({"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": "b"}, never)
    assert found.settings.name == f"anthropic:{VENDORS['anthropic'].default}"


async def test_a_key_without_its_library_leaves_the_practice_model_and_says_why(monkeypatch):
    monkeypatch.setattr(vendors, "find_spec", lambda _name: None)
    found = await detect_model({"OPENAI_API_KEY": "a"}, never)
    assert found.settings.is_practice
    assert found.sentence == (
        "The practice model answers, offline. OPENAI_API_KEY is set, but pydantic_ai is not installed: "
        "install holdfast[models]."
    )


TAGS = {
    "models": [
        {"name": "nomic-embed-text:latest", "modified_at": "2026-03-01T00:00:00Z"},
        {"name": "llama3.2:latest", "modified_at": "2026-01-01T00:00:00Z"},
        {"name": "qwen3:8b", "modified_at": "2026-02-01T00:00:00Z"},
    ]
}


async def test_an_ollama_that_is_there_answers_with_its_newest_model():
    async with FakeVendor([status(200, TAGS)]) as ollama:
        found = await detect_model({"OLLAMA_HOST": ollama.url})
        assert ollama.asked[0].path == "/api/tags"
        assert (found.settings.name, found.settings.base_url) == ("ollama:qwen3:8b", f"{ollama.url}/v1")
        assert found.sentence.startswith(f"An Ollama at {ollama.url} has qwen3:8b, so it answers.")


@pytest.mark.parametrize(
    "play", [hangs, page("<html>"), status(500), status(200, {"models": []}), status(302, location="http://x/")]
)
async def test_an_ollama_with_bad_manners_leaves_the_practice_model(play):
    async with FakeVendor([play]) as ollama:
        assert await ask_ollama(ollama.url) is None
        async with within(10):
            found = await detect_model({"OLLAMA_HOST": ollama.url})
    assert found.settings.is_practice
    assert found.sentence == (
        "The practice model answers, offline. For a real one, set OPENAI_API_KEY or ANTHROPIC_API_KEY, "
        "start Ollama, or run `holdfast init`."
    )


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("", OLLAMA),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("box:80", "http://box:80"),
        ("https://box:443/", "https://box:443"),
        ("169.254.169.254", None),
        ("me:pw@box", None),
    ],
)
def test_the_address_of_an_ollama_is_read_as_ollama_reads_it(said, address):
    assert ollama_address({"OLLAMA_HOST": said}) == address


def test_names_that_no_model_has_are_not_believed():
    assert first_model(json.dumps({"models": [{"name": "a b\n"}]}).encode()) is None
