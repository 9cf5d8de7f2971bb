"""The Honcho table of holdfast.toml: what cannot be right is refused before anything is sent, in a sentence."""

import sys

import pytest

from holdfast.kernel.errors import ConfigInvalid
from holdfast.providers.honcho import make_honcho
from holdfast.providers.honcho.naming import HonchoNames, Strategy
from tests.support.honcho_kit import setup_of

URL = "http://127.0.0.1:8000"


async def test_the_url_is_all_that_is_needed():
    made = make_honcho(setup_of({"url": URL}))
    assert made.naming == HonchoNames()
    assert (made.every_turns, made.max_wait_ms) == (1, 300_000)
    assert made.provider.capabilities.units_per_lane == 20
    await made.provider.close()


async def test_every_setting_is_heard():
    table = {
        "url": "https://honcho.example/base",
        "workspace": "lab",
        "strategy": "per-repo",
        "every_turns": 5,
        "max_wait_s": 60,
        "api_key_env": "KEY",
        "titles": {"Garden": "roses"},
        "peer_prefix": "p",
        "peers": {"ada": "lovelace"},
        "runtime_peer_prefix": "tg_",
        "compat": True,
        "timeout_s": 5,
    }
    made = make_honcho(setup_of(table, environment={"KEY": "sesame"}))
    assert made.naming == HonchoNames(
        workspace="lab",
        strategy=Strategy.PER_REPO,
        prefix="p",
        titles=(("Garden", "roses"),),
        peers=(("ada", "lovelace"),),
        runtime_prefix="tg_",
        compat=True,
    )
    assert (made.every_turns, made.max_wait_ms) == (5, 60_000)
    await made.provider.close()


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({}, "url is missing; set it"),
        ({"url": URL, "uri": 1}, "honcho.uri is not a setting; did you mean url?"),
        ({"url": 5}, "honcho.url is 5"),
        ({"url": URL, "strategy": "per-week"}, "one of per-session, per-directory, per-repo, global"),
        ({"url": URL, "every_turns": 0}, "honcho.every_turns is 0"),
        ({"url": URL, "every_turns": "1"}, "honcho.every_turns is '1'"),
        ({"url": URL, "max_wait_s": -1}, "honcho.max_wait_s is -1"),
        ({"url": URL, "timeout_s": 0}, "honcho.timeout_s is 0"),
        ({"url": URL, "compat": "yes"}, "honcho.compat is 'yes'"),
        ({"url": URL, "workspace": "a b"}, "honcho.workspace is 'a b'"),
        ({"url": URL, "workspace": ""}, "honcho.workspace is ''"),
        ({"url": URL, "peer_prefix": "ä"}, "honcho.peer_prefix is 'ä'"),
        ({"url": URL, "titles": {"x": "a b"}}, "honcho.titles: 'x' is 'a b'"),
        ({"url": URL, "titles": {"x": 5}}, "honcho.titles"),
        ({"url": URL, "peers": {"ada": "a"}}, "only with compat = true"),
        ({"url": URL, "runtime_peer_prefix": "tg_"}, "only with compat = true"),
        ({"url": URL, "api_key_env": "sk-123 4"}, "not the key itself"),
        ({"url": URL, "api_key_env": "MISSING"}, "the environment has no MISSING"),
        ({"url": URL, "api_key_env": "BROKEN"}, "characters that no API key has"),
    ],
)
def test_a_setting_that_cannot_be_right_is_named(table, sentence):
    with pytest.raises(ConfigInvalid) as raised:
        make_honcho(setup_of(table, environment={"BROKEN": "se\nsame"}))
    assert sentence in str(raised.value)
    assert "sesame" not in str(raised.value)
    assert "sk-123" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        *("", "honcho", "ftp://honcho", "file:///etc/passwd", "http://", "http://[::1", "http://h:0", "http://h:x"),
        *("http://ada:pass@honcho", "http://honcho/?a=1", "http://honcho/#x", "http://hon cho", "http://h\n"),
        *("http://169.254.169.254", "http://169.254.1.1/x", "http://[fe80::1]", "http://[::ffff:169.254.169.254]"),
        *("http://[fd00:ec2::254]", "http://100.100.100.200", "http://metadata.google.internal", "http://METADATA."),
        *("http://2852039166", "http://0xa9fea9fe", "http://0xa9.0xfe.0xa9.0xfe", "http://0.0.0.0", "http://224.0.0.1"),
    ],
)
def test_a_url_where_no_honcho_can_be_is_refused(url):
    with pytest.raises(ConfigInvalid, match=r"honcho\.url") as raised:
        make_honcho(setup_of({"url": url}))
    assert "pass" not in str(raised.value).replace("passwd", "").replace("password", "")


def test_a_missing_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "holdfast.providers.honcho.provider", None)
    with pytest.raises(ConfigInvalid, match=r"install holdfast\[honcho\]"):
        make_honcho(setup_of({"url": URL}))
