"""A home of Hermes is recognised before anything is read or changed in it."""

import pytest

from holdfast.hermes.home import find_home
from holdfast.kernel.errors import HermesHomeInvalid


def test_the_variable_names_the_home_unless_the_caller_does(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in "ab":
        (tmp_path / name / "config.yaml").touch()
    variables = {"HERMES_HOME": str(tmp_path / "a")}
    assert find_home(None, variables).path == (tmp_path / "a").resolve()
    assert find_home(tmp_path / "b", variables).path == (tmp_path / "b").resolve()


def test_a_folder_without_files_of_hermes_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(HermesHomeInvalid, match="none of config"):
        find_home(tmp_path, {})
    with pytest.raises(HermesHomeInvalid, match="not a folder"):
        find_home(tmp_path / "missing", {})
