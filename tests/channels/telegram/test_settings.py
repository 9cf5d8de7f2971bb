"""Settings that cannot be right are refused before anything is connected, with the key and what would be right; no
secret is in any text."""

import pytest

from holdfast.channels.telegram import make_telegram
from holdfast.kernel.errors import ConfigInvalid
from tests.channels.telegram.kit import setup

TOKEN = "123456:AAF-canary_token"
ENVIRONMENT = {"TOKEN": TOKEN, "HOOK": "hook-secret", "BLANK": " ", "ODD": "no token at all", "WORDS": "two words"}
POLLING = {"token_env": "TOKEN"}
HOOKED = {**POLLING, "mode": "webhook", "webhook_url": "https://bots.example/hook", "webhook_secret_env": "HOOK"}

BAD = [
    ({}, "neither token_env nor token_file"),
    ({"token_env": "TOKEN", "token_file": "token"}, "both"),
    ({"token": TOKEN}, "token_env or token_file"),
    ({"token_env": TOKEN}, "not the secret itself"),
    ({"token_file": TOKEN}, "names no readable file"),
    ({"token_env": 5}, "token_env"),
    ({"token_env": "ABSENT"}, "the environment has no ABSENT"),
    ({"token_env": "BLANK"}, "the environment has no BLANK"),
    ({"token_env": "ODD"}, "token_env"),
    ({"token_env": "HOOK"}, "is no bot token"),
    ({**POLLING, "tokn": "x"}, "telegram.tokn is not a setting; did you mean token_env?"),
    ({**POLLING, "mode": "pulling"}, 'telegram.mode is \'pulling\': it must be "polling" or "webhook"'),
    ({**POLLING, "poll_s": 0}, "poll_s is 0: it must be a whole number of seconds from 1 to 50"),
    ({**POLLING, "poll_s": 51}, "poll_s is 51"),
    ({**POLLING, "poll_s": "30"}, "poll_s is '30'"),
    ({**POLLING, "api_url": "api.telegram.org"}, "api_url"),
    ({**POLLING, "api_url": "http://bots.example"}, "over plain http"),
    ({**POLLING, "api_url": "https://bob:word@bots.example"}, "no user and no password"),
    ({**POLLING, "webhook_url": "https://bots.example/hook"}, 'mode = "webhook"'),
    ({**HOOKED, "webhook_url": None}, "webhook_url"),
    ({key: value for key, value in HOOKED.items() if key != "webhook_url"}, "/v1/hooks/ada/telegram"),
    ({**HOOKED, "webhook_url": "http://bots.example/hook"}, "webhook_url"),
    ({**HOOKED, "webhook_secret_env": "BLANK"}, "webhook_secret_env"),
    ({**HOOKED, "webhook_secret_env": "WORDS"}, "webhook_secret_env"),
    ({**HOOKED, "webhook_secret_env": "TOKEN"}, "A-Z, a-z, 0-9, _ and -"),
    ({key: value for key, value in HOOKED.items() if key != "webhook_secret_env"}, "neither webhook_secret_env"),
    ({**HOOKED, "webhook_secret": "hook-secret"}, "webhook_secret_env or webhook_secret_file"),
]


@pytest.mark.parametrize(("table", "sentence"), BAD, ids=str)
def test_a_wrong_setting_is_named_and_no_secret_is_shown(table, sentence):
    with pytest.raises(ConfigInvalid) as seen:
        make_telegram(setup(table, ENVIRONMENT))
    assert sentence in str(seen.value)
    assert not any(secret in f"{seen.value} {seen.value.context}" for secret in ("canary", "hook-secret"))


def test_a_token_may_stand_in_a_file_of_its_own(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    channel = make_telegram(setup({"token_file": "token"}, {}, tmp_path))
    assert channel._token == TOKEN
    assert channel._api_url == "https://api.telegram.org"


@pytest.mark.parametrize("body", [b"", b" \n", b"\x00\x01", b"x" * 5000])
def test_a_file_that_holds_no_token_is_refused(tmp_path, body):
    (tmp_path / "token").write_bytes(body)
    with pytest.raises(ConfigInvalid, match="token_file"):
        make_telegram(setup({"token_file": "token"}, {}, tmp_path))


def test_secrets_are_in_no_repr():
    settings = make_telegram(setup(HOOKED, ENVIRONMENT))._settings
    assert "canary" not in repr(settings)
    assert "hook-secret" not in repr(settings)


def test_making_a_channel_does_not_load_the_http_client():
    import subprocess
    import sys

    code = "import sys; from holdfast.channels.telegram import make_telegram; assert 'httpx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
