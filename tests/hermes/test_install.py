"""An installation changes one value of config.yaml and adds a folder; anything unexpected changes nothing at all."""

import json
import os
import stat

import pytest

from holdfast.hermes.config_yaml import provider_of, set_provider
from holdfast.hermes.home import find_home
from holdfast.hermes.install import Installation, install_plugin, installed_version, uninstall_plugin
from holdfast.hermes.provider_config import CLIENTS
from holdfast.hermes.status import read_status
from holdfast.kernel.errors import (
    ConfigInvalid,
    HermesConfigInvalid,
    HermesNotFound,
    HermesPluginForeign,
    HermesProviderSet,
    HermesUnsupported,
    SpoolNewer,
    StoreReadOnly,
)

CONFIG = """\
# mine
model: gpt
memory:
  memory_enabled: true  # yes
  provider: hindsight  # chosen in May
gateway:
  provider: not-this-one
"""


@pytest.fixture
def python(tmp_path):
    """An interpreter that says that it has Hermes."""

    def make(version="0.19.0"):
        script = tmp_path / f"python-{version}"
        loaded = 'test -f "$5/plugins/holdfast/__init__.py" && echo loaded holdfast'
        script.write_text(f'#!/bin/sh\ncase "$*" in *metadata*) echo {version};; *) {loaded};; esac\n')
        script.chmod(0o755)
        return script

    return make


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    return find_home(folder, {})


def tree(home):
    return {path.relative_to(home.path).as_posix() for path in home.path.rglob("*")}


def install(home, python, tmp_path, **how):
    return install_plugin(home, Installation(python=python, **how), {}, tmp_path)


def test_installing_and_removing_restores_the_file_to_the_byte(home, python, tmp_path):
    home.config.chmod(0o640)
    done = install(home, python(), tmp_path, replaces=True)
    assert (done.before, done.version, provider_of(home)) == ("hindsight", "0.19.0", "holdfast")
    assert home.config.read_text() == CONFIG.replace("hindsight", "holdfast")
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o640
    assert installed_version(home)
    install(home, python(), tmp_path)  # again, as after an upgrade
    assert uninstall_plugin(home) == ("hindsight", 0)
    assert home.config.read_text() == CONFIG
    assert not home.plugin.exists()


def test_another_provider_is_replaced_only_on_request(home, python, tmp_path):
    before = tree(home)
    with pytest.raises(HermesProviderSet, match="hindsight"):
        install(home, python(), tmp_path)
    assert tree(home) == before
    assert home.config.read_text() == CONFIG


@pytest.mark.parametrize("version", ["0.12.0", "0.20.1", "1.0"])
def test_a_version_that_was_not_checked_is_refused(home, python, tmp_path, version):
    before = tree(home)
    with pytest.raises(HermesUnsupported, match=version):
        install(home, python(version), tmp_path, replaces=True)
    assert tree(home) == before


def test_without_hermes_nothing_is_installed(home, tmp_path):
    before = tree(home)
    with pytest.raises(HermesNotFound):
        install(home, tmp_path / "no-python", tmp_path, replaces=True)
    with pytest.raises(HermesNotFound, match="not on PATH"):
        install_plugin(home, Installation(replaces=True), {"PATH": str(tmp_path)}, tmp_path)
    assert tree(home) == before


def test_a_folder_of_somebody_else_is_left_alone(home, python, tmp_path):
    home.plugin.mkdir(parents=True)
    (home.plugin / "mine.py").touch()
    for act in (lambda: install(home, python(), tmp_path, replaces=True), lambda: uninstall_plugin(home)):
        with pytest.raises(HermesPluginForeign, match=r"mine\.py"):
            act()
    assert (home.plugin / "mine.py").exists()
    assert home.config.read_text() == CONFIG


def test_a_plugin_that_is_half_installed_is_completed_or_removed(home, python, tmp_path):
    home.plugin.mkdir(parents=True)
    (home.plugin / "__init__.py").touch()
    assert installed_version(home) == ""
    install(home, python(), tmp_path, replaces=True)
    assert installed_version(home)
    (home.plugin / "spool.py").unlink()
    assert installed_version(home) == ""
    assert read_status(home)["installed"] == "incomplete; run `holdfast hermes install`"
    uninstall_plugin(home)
    assert not home.plugin.exists()
    assert home.config.read_text() == CONFIG


@pytest.mark.parametrize(
    "text",
    ["memory: {provider: x}\n", "memory:\n  provider: a b\n", "memory:\n  x: 1\nmemory:\n  provider: y\n"],
)
def test_a_configuration_that_lines_do_not_show_is_refused(home, python, tmp_path, text):
    home.config.write_text(text)
    before = tree(home)
    with pytest.raises(HermesConfigInvalid):
        install(home, python(), tmp_path, replaces=True)
    assert (home.config.read_text(), tree(home)) == (text, before)


def test_a_configuration_that_is_not_utf8_is_refused(home, python, tmp_path):
    home.config.write_bytes(b"model: \xff\n")
    with pytest.raises(HermesConfigInvalid, match="byte 7"):
        install(home, python(), tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "memory:\n  provider: holdfast\n"),
        ("model: x", "model: x\nmemory:\n  provider: holdfast\n"),
        ("memory:\n    a: 1\nb: 2\n", "memory:\n    provider: holdfast\n    a: 1\nb: 2\n"),
        ("memory: # all\n  provider: ''\n", "memory: # all\n  provider: holdfast\n"),
        ("memory:\n  sub:\n    provider: inner\n", "memory:\n  provider: holdfast\n  sub:\n    provider: inner\n"),
    ],
)
def test_one_value_is_set_and_the_rest_stays(home, text, expected):
    home.config.write_text(text)
    assert set_provider(home, "holdfast") == ""
    assert home.config.read_text() == expected
    assert provider_of(home) == "holdfast"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_a_home_that_cannot_be_written_is_reported(home, python, tmp_path):
    home.path.chmod(0o500)
    try:
        with pytest.raises(StoreReadOnly):
            install(home, python(), tmp_path, replaces=True)
    finally:
        home.path.chmod(0o700)


def test_a_file_in_the_place_of_a_folder_is_reported(home, python, tmp_path):
    (home.path / "holdfast").write_text("x")
    with pytest.raises(StoreReadOnly):
        install(home, python(), tmp_path, replaces=True)
    assert home.config.read_text() == CONFIG


def test_settings_of_a_provider_that_are_not_json_are_reported(home, python, tmp_path):
    (home.path / "hindsight").mkdir()
    (home.path / "hindsight" / "config.json").write_text("{")
    with pytest.raises(ConfigInvalid, match=r"config\.json"):
        install(home, python(), tmp_path, replaces=True)
    assert home.config.read_text() == CONFIG


def test_a_client_library_that_is_missing_is_reported(home, python, tmp_path, monkeypatch):
    (home.path / "honcho.json").write_text(json.dumps({"apiKey": "k"}))
    monkeypatch.setitem(CLIENTS, "honcho", "a_library_that_nobody_has")
    with pytest.raises(ConfigInvalid, match=r"install holdfast\[honcho\]"):
        install(home, python(), tmp_path, replaces=True)
    assert home.config.read_text() == CONFIG


def test_a_plugin_that_hermes_does_not_load_is_not_installed(home, tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$*" in *metadata*) echo 0.19.0;; *) exit 1;; esac\n')
    python.chmod(0o755)
    before = tree(home)
    with pytest.raises(HermesUnsupported, match="does not load"):
        install(home, python, tmp_path, replaces=True)
    assert tree(home) == before


def test_a_spool_of_a_newer_version_is_reported(home, python, tmp_path):
    home.spool.mkdir(parents=True)
    (home.spool / "x.spool").write_bytes(b"holdfast-spool 9\n")
    with pytest.raises(SpoolNewer, match="format 9"):
        install(home, python(), tmp_path, replaces=True)
    assert home.config.read_text() == CONFIG


def test_the_status_is_what_the_files_say(home, python, tmp_path):
    assert read_status(home)["installed"] == "no"
    assert read_status(home)["selected"] == "no, Hermes uses hindsight"
    install(home, python(), tmp_path, replaces=True, data=tmp_path / "data")
    found = read_status(home)
    assert (found["selected"], found["serving"], found["waiting_in_spool"]) == ("yes", "no", "0")
    assert json.loads((home.folder / "plugin.json").read_text())["data"] == str(tmp_path / "data")
