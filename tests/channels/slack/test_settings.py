"""The promise: settings that cannot be right are refused with the key and what would be right, never with a secret."""

import pytest

from holdfast.channels.slack import SlackChannel, make_slack
from holdfast.inbox.channel import WebhookChannel
from holdfast.kernel.errors import ConfigInvalid
from tests.channels.slack.kit import setup_of

GOOD = {"token_env": "BOT", "app_token_env": "APP"}
HTTP = {"token_env": "BOT", "mode": "http", "signing_secret_env": "SIGN"}
SECRETS = {"BOT": "xoxb-secret", "APP": "xapp-secret", "SIGN": "5ign-secret", "BLANK": " \t"}


def test_tokens_come_from_the_environment_or_from_files(tmp_path):
    (tmp_path / "app").write_text("xapp-secret\n")
    assert isinstance(make_slack(setup_of(GOOD, None, SECRETS)), SlackChannel)
    mixed = {"token_env": "BOT", "app_token_file": "app", "api_url": "https://slack-gov.com/api"}
    assert isinstance(make_slack(setup_of(mixed, tmp_path, SECRETS)), SlackChannel)


def test_over_http_the_signing_secret_takes_the_place_of_the_app_token(tmp_path):
    (tmp_path / "sign").write_text("5ign-secret\n")
    assert isinstance(make_slack(setup_of(HTTP, None, SECRETS)), WebhookChannel)
    filed = {"token_env": "BOT", "mode": "http", "signing_secret_file": "sign"}
    assert isinstance(make_slack(setup_of(filed, tmp_path, SECRETS)), SlackChannel)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({**GOOD, "tokn_env": "X"}, "slack.tokn_env is not a setting; did you mean token_env?"),
        ({**GOOD, "token": "xoxb-secret"}, "token_env or token_file"),
        ({**GOOD, "app_token": "xapp-secret"}, "app_token_env or app_token_file"),
        ({"token_env": "BOT"}, "app_token"),
        ({"app_token_env": "APP"}, "token"),
        ({**GOOD, "token_file": "x"}, "token_file"),
        ({**GOOD, "token_env": "xoxb-secret"}, "not the secret itself"),
        ({**GOOD, "token_env": "NOWHERE"}, "NOWHERE"),
        ({**GOOD, "token_env": 5}, "token_env"),
        ({"token_env": "BOT", "app_token_file": "missing"}, "app_token_file"),
        ({**GOOD, "api_url": "ftp://slack.com"}, "api_url"),
        ({**GOOD, "api_url": "http://slack.com/api"}, "over plain http"),
        ({**GOOD, "api_url": "https://u:xoxb-secret@slack.com"}, "api_url"),
        ({**GOOD, "mode": "events"}, 'it must be "socket" or "http"'),
        ({**GOOD, "mode": 5}, "mode"),
        ({**GOOD, "signing_secret_env": "SIGN"}, 'it needs mode = "http"'),
        ({**GOOD, "signing_secret_file": "sign"}, 'it needs mode = "http"'),
        ({**GOOD, "mode": "http"}, "app_token_env: it is used in socket mode only"),
        ({**HTTP, "app_token_file": "app"}, "app_token_file: it is used in socket mode only"),
        ({**HTTP, "mode": "socket"}, 'it needs mode = "http"'),
        ({"token_env": "BOT", "mode": "http"}, "neither signing_secret_env nor signing_secret_file"),
        ({**HTTP, "signing_secret_file": "sign"}, "signing_secret_env and signing_secret_file are both set"),
        ({**HTTP, "signing_secret": "5ign-secret"}, "signing_secret_env or signing_secret_file"),
        ({**HTTP, "signing_secret_env": "BLANK"}, "the environment has no BLANK"),
        ({"token_env": "BOT", "mode": "http", "signing_secret_file": "blank"}, "the file is empty"),
        ({**HTTP, "signing_secret_env": "BOT"}, "signing_secret: its value is a token"),
        ({**HTTP, "signing_secret_env": "APP"}, "signing_secret: its value is a token"),
        ({**HTTP, "token_env": "APP"}, "token: its value is an app-level token"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings, sentence, tmp_path):
    (tmp_path / "blank").write_text(" \n")
    with pytest.raises(ConfigInvalid) as refused:
        make_slack(setup_of(settings, tmp_path, SECRETS))
    assert sentence in str(refused.value)
    assert not any(secret in str(refused.value) for secret in SECRETS.values() if secret.strip())


def test_swapped_tokens_are_noticed_before_anything_is_sent():
    with pytest.raises(ConfigInvalid, match="app-level"):
        make_slack(setup_of({"token_env": "APP", "app_token_env": "BOT"}, None, SECRETS))
