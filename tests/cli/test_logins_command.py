"""`holdfast logins` and `holdfast token new --expires`, beside a gateway that serves."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.cli.test_cli import TOKEN, asked, here, refused, running
from tests.support.patience import HANGS_S
from tests.support.processes import PLAIN


@contextmanager
def logged_in(url: object) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=str(url), trust_env=False, timeout=HANGS_S, verify=PLAIN) as client:
        assert client.post("/v1/login", json={"token": TOKEN}).status_code == 200
        yield client


def test_the_operator_sees_and_ends_logins_while_up_runs(tmp_path):
    data = tmp_path / "data"
    with (
        running(data, HOLDFAST_TOKEN=TOKEN) as (_, ready),
        logged_in(ready["url"]) as one,
        logged_in(ready["url"]) as two,
    ):
        listed = asked("logins", "list", "--data", data)["logins"]
        assert [(login["token"], login["state"]) for login in listed] == [("operator", "open")] * 2
        second, first = (login["login"] for login in listed)
        assert asked("logins", "end", first, "--yes", "--data", data) == {"ended": [first]}
        assert one.get("/v1/me").json()["error"]["code"] == "login_ended"
        refused(here("logins", "end", first, "--yes", "--data", data), "login_not_found")
        assert asked("logins", "end", "--token", "tok_none", "--yes", "--data", data) == {"ended": []}
        assert here("logins", "end", "--all", "--yes", "--data", data).stdout == "Ended 1 login.\n"
        assert two.get("/v1/me").json()["error"]["code"] == "login_ended"
    assert asked("logins", "list", "--data", data) == {"logins": []}
    every = asked("logins", "list", "--all", "--data", data)["logins"]
    assert [(login["login"], login["state"]) for login in every] == [(second, "operator"), (first, "operator")]
    assert "operator" in here("logins", "list", "--all", "--data", data).stdout


@pytest.mark.parametrize("which", [[], ["log_1", "--all"], ["--token", "x", "--all"]])
def test_it_is_said_which_logins_to_end_and_only_one_way(tmp_path, which):
    refused(here("logins", "end", *which, "--yes", "--data", tmp_path), "invalid_input")


@pytest.mark.parametrize("which", [[""], ["--token", ""]])
def test_an_empty_id_is_not_all_of_them(tmp_path, which):
    refused(here("logins", "end", *which, "--yes", "--data", tmp_path), "invalid_name")


def test_a_token_expires_when_it_was_told_to(tmp_path):
    data = tmp_path / "data"
    made = asked("token", "new", "--scope", "read", "--expires", "90d", "--data", data)
    assert made["expires_at"] - made["made_at"] in range(90 * 86_400_000 - 60_000, 90 * 86_400_000 + 1)
    assert asked("token", "new", "--scope", "read", "--data", data)["expires_at"] is None
    assert [one["expires_at"] for one in asked("token", "list", "--data", data)["tokens"]] == [made["expires_at"], None]
    shown = here("token", "list", "--data", data).stdout
    assert "expires" in shown
    assert "never" in shown


@pytest.mark.parametrize("lasts", ["", "90", "0d", "-1d", "3651d", "9999999d", "90 days", "1y", "٣d"])
def test_an_expiry_that_cannot_be_meant_is_refused(tmp_path, lasts):
    done = here("token", "new", "--scope", "read", f"--expires={lasts}", "--data", tmp_path)
    refused(done, "invalid_input")
    assert "write 90d, 12h or 30m" in done.stderr
