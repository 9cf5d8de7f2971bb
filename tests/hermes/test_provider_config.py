"""The settings of Hindsight and Honcho are found where Hermes' own plugins find them; no secret is written or shown."""

import json

import pytest

from holdfast.hermes.home import find_home
from holdfast.hermes.provider_config import HINDSIGHT_KEY, HONCHO_KEY, bank_template, read_env, read_memory
from holdfast.kernel.errors import ConfigInvalid
from holdfast.providers.hindsight.naming import BankTemplate


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").touch()
    return find_home(tmp_path / "home", {})


def write(file, value):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def test_without_settings_turns_go_to_the_local_memory(home, tmp_path):
    assert read_memory(home, {}, tmp_path).tables == {"local": {}}


def test_the_settings_of_the_home_come_first(home, tmp_path):
    write(tmp_path / ".hindsight" / "config.json", {"api_url": "http://127.0.0.1:1"})
    write(home.path / "hindsight" / "config.json", {"mode": "local_external", "api_url": "http://127.0.0.1:2"})
    assert read_memory(home, {}, tmp_path).tables["hindsight"] == {"url": "http://127.0.0.1:2", "bank": "hermes"}


def test_keys_are_handed_on_and_never_shown(home, tmp_path):
    (home.path / ".env").write_text("# keys\nexport HINDSIGHT_API_KEY='s3cret'\n")
    write(home.path / "honcho.json", {"hosts": {"hermes": {"apiKey": "other", "workspace": "w", "peerName": "ada"}}})
    found = read_memory(home, {}, tmp_path)
    assert found.secrets == {HINDSIGHT_KEY: "s3cret", HONCHO_KEY: "other"}
    assert "s3cret" not in repr(found)
    assert found.tables["hindsight"]["api_key_env"] == HINDSIGHT_KEY
    assert found.tables["honcho"]["peers"] == {"owner": "ada"}


def test_a_provider_that_is_switched_off_is_not_used(home, tmp_path):
    write(home.path / "honcho.json", {"enabled": False, "apiKey": "x"})
    assert "honcho" not in read_memory(home, {}, tmp_path).tables


def test_the_embedded_mode_is_left_out_with_a_reason(home, tmp_path):
    write(home.path / "hindsight" / "config.json", {"mode": "local_embedded"})
    found = read_memory(home, {}, tmp_path)
    assert "hindsight" not in found.tables
    assert "local_external" in found.left_out[0]


def test_aliases_hold_on_every_platform(home, tmp_path):
    write(home.path / "honcho.json", {"apiKey": "k", "userPeerAliases": {"42": "ada"}})
    peers = read_memory(home, {}, tmp_path).tables["honcho"]["peers"]
    assert isinstance(peers, dict)
    assert peers["telegram:42"] == peers["discord:42"] == "ada"


@pytest.mark.parametrize("template", ["", "hermes-{profile}", "{workspace}.{user}", "a/b {session}"])
def test_every_template_of_hermes_is_one_of_ours(template):
    assert BankTemplate(bank_template(template, "hermes"))


def test_a_file_that_is_not_json_is_reported(home, tmp_path):
    (home.path / "honcho.json").write_text("[]")
    with pytest.raises(ConfigInvalid, match="not a JSON object"):
        read_memory(home, {}, tmp_path)


def test_an_environment_file_that_is_missing_has_no_variables(tmp_path):
    assert read_env(tmp_path / ".env") == {}
