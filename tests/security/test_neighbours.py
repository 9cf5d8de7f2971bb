"""A program that Holdfast starts, and its neighbours on the machine, find no secret of Holdfast's."""

import asyncio
import sys

import pytest

from tests.security.spying import need_landlock, spied

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One run for all tests: nothing in it depends on what is looked at."""
    need_landlock()
    return asyncio.run(spied(tmp_path_factory.mktemp("spied"), "landlock"))


def test_an_mcp_program_finds_no_secret_of_the_gateway(found):
    """Finding 11: it read the gateway's secrets from its parent's environment."""
    found, _ = found
    assert found["parent_environment"] in ("PermissionError", "empty")  # which one depends on the kernel
    places = ("parent_memory", "token_file", "listing", "store", "config")
    assert {place: found[place] for place in places} == dict.fromkeys(places, "PermissionError")
    assert found["files"] == {"telegram.secret": "PermissionError", "holdfast.key": "PermissionError"}
    assert (found["own_environment"], found["environments"]) == ("nothing", "nothing")


def test_an_mcp_program_is_given_little_and_a_place_of_its_own(found):
    found, told = found
    assert set(found["names"]) <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "TMPDIR", "PLAIN"}
    assert found["descriptors"] == [0, 1, 2]
    assert (found["folder"], found["home"]) == (found["own"], found["own"])
    assert (found["can_write_at_home"], found["can_read_programs"]) == ("nothing", "secret")
    assert found["can_write_beside_home"] == "PermissionError"
    assert found["leads_session"]
    assert told["confinement"] == "landlock"


def test_the_environment_of_the_gateway_holds_no_secret_even_for_root(found):
    """The block that the process was started with is overwritten; variables that are no secret stay."""
    found, _ = found
    assert "canary" not in found["as_root"]
    assert "PATH=" in found["as_root"]


def test_the_gateway_writes_no_core_file(found):
    found, _ = found
    (line,) = [line for line in found["limits"].splitlines() if line.startswith("Max core file size")]
    assert line.split()[4:6] == ["0", "0"]
