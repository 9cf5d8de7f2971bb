"""The promise: settings that cannot be right are refused with the key and what would be right, never with a secret."""

import pytest

from holdfast.channels.slack import SlackChannel, make_slack
from holdfast.core.errors import ConfigInvalid
from tests.integration.slack.kit import setup_of

GOOD = {"token_env": "BOT", "app_token_env": "APP"}
SECRETS = {"BOT": "xoxb-secret", "APP": "xapp-secret"}


def test_tokens_come_from_the_environment_or_from_files(tmp_path):
    (tmp_path / "app").write_text("xapp-secret\n")
    assert isinstance(make_slack(setup_of(GOOD, None, SECRETS)), SlackChannel)
    mixed = {"token_env": "BOT", "app_token_file": "app", "api_url": "https://slack-gov.com/api"}
    assert isinstance(make_slack(setup_of(mixed, tmp_path, SECRETS)), SlackChannel)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({**GOOD, "tokn_env": "X"}, "token_env, token_file, app_token_env, app_token_file, api_url"),
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
        ({**GOOD, "api_url": "http://slack.com/api"}, "https"),
        ({**GOOD, "api_url": "https://u:xoxb-secret@slack.com"}, "api_url"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings, sentence, tmp_path):
    with pytest.raises(ConfigInvalid) as refused:
        make_slack(setup_of(settings, tmp_path, SECRETS))
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value).replace("the secret", "").replace("a secret", "").replace("to the", "")


def test_swapped_tokens_are_noticed_before_anything_is_sent():
    with pytest.raises(ConfigInvalid, match="app-level"):
        make_slack(setup_of({"token_env": "APP", "app_token_env": "BOT"}, None, SECRETS))
