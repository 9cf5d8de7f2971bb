"""The commands for Hermes say in one form what is wrong, and change nothing then."""

import json

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.hermes.plugin.spool import spool_of
from tests.support.hermes_service import make_home


def run(*arguments):
    return CliRunner().invoke(app, ["hermes", *map(str, arguments)], env={"HERMES_HOME": None})


@pytest.mark.parametrize("command", ["install", "uninstall", "serve", "status"])
def test_a_folder_that_is_no_home_is_refused(tmp_path, command):
    done = run(command, tmp_path)
    assert done.exit_code == 1
    assert done.stderr.startswith("error[hermes_home_invalid]: ")
    assert list(tmp_path.iterdir()) == []


def test_an_installation_without_hermes_is_refused(tmp_path):
    home = make_home(tmp_path / "home")
    done = run("install", home.path, "--python", tmp_path / "missing", "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (1, "hermes_not_found")
    assert not home.plugin.exists()


def test_the_status_says_that_nobody_delivers(tmp_path):
    home = make_home(tmp_path / "home")
    spool_of(home.path).append({"kind": "turn", "session": "S", "user": "a", "assistant": "b", "about": {}})
    found = json.loads(run("status", home.path, "--json").stdout)
    assert (found["installed"], found["serving"], found["waiting_in_spool"]) == ("no", "no", "1")


@pytest.mark.parametrize("command", ["status", "serve"])
def test_a_spool_of_a_newer_release_is_reported_and_kept(tmp_path, command):
    home = make_home(tmp_path / "home")
    home.spool.mkdir(parents=True)
    (home.spool / "x.spool").write_bytes(b"holdfast-spool 9\n")
    done = run(command, home.path)
    assert done.exit_code == 1
    assert done.stderr.startswith("error[spool_newer]: ")
    assert [path.name for path in home.spool.iterdir()] == ["x.spool"]


def test_a_home_that_cannot_be_written_is_reported(tmp_path):
    home = make_home(tmp_path / "home")
    home.folder.write_text("a file in the place of the folder")
    done = run("serve", home.path, "--data", tmp_path / "data")
    assert done.exit_code == 1
    assert done.stderr.startswith("error[store_read_only]: ")
    assert home.folder.read_text() == "a file in the place of the folder"


def test_removing_what_is_not_installed_changes_nothing(tmp_path):
    home = make_home(tmp_path / "home")
    before = home.config.read_bytes()
    done = run("uninstall", home.path)
    assert done.exit_code == 0
    assert home.config.read_bytes() == before
