"""Text that looks like a secret never reaches the log, from any error (control 16, I17). Other text stays readable."""

import json
import logging

import pytest

from holdfast.kernel import log
from holdfast.kernel.redaction import HIDDEN, redacted

SECRETS = {
    "ours": "hf_" + "0123456789abcdef" * 4,
    "telegram": "123456789:AAF1x-abcdefghijklmnopqrstuvwxyz012",
    "slack bot": "xoxb-123456789012-abcdefABCDEF",
    "slack app": "xapp-1-A123-456-abcdef0123456789",
    "discord": "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.abcdefghijklmnopqrstuvwxyz0123456789AB",
    "openai": "sk-proj-abcdefghijklmnop0123456789",
    "anthropic": "sk-ant-api03-abcdefghijklmnop0123456789",
}


def line_of(event, **fields):
    record = logging.LogRecord("holdfast", logging.ERROR, "", 0, event, (), None)
    record.fields = fields
    return log.JsonLines().format(record)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_of_a_known_shape_is_hidden_in_fields_and_traces(secret):
    line = line_of("model.failed", why=f"the server said {secret}, which is wrong")
    assert secret not in line
    assert HIDDEN in json.loads(line)["why"]
    failure = ValueError(f"bad key {secret}")
    record = logging.LogRecord("holdfast", logging.ERROR, "", 0, "loop.failed", (), (ValueError, failure, None))
    told = log.JsonLines().format(record)
    assert secret not in told
    assert "ValueError" in json.loads(told)["trace"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Authorization: Bearer abcdef0123456789", f"Authorization: Bearer {HIDDEN}"),
        ("authorization='Basic dXNlcjpwYXNzd29yZA=='", f"authorization='Basic {HIDDEN}'"),
        ("api_key=abcdef0123456789&x=1", f"api_key={HIDDEN}&x=1"),
        ("password: correcthorsebattery", f"password: {HIDDEN}"),
        ("postgresql://holdfast:s3cret@db/x", f"postgresql://{HIDDEN}@db/x"),
        ("https://api.telegram.org/bot123456789:AAF1x-abcdefghijklmnopqrstuvwxyz012/getMe", None),
    ],
)
def test_a_secret_is_hidden_by_what_it_is_called(text, said):
    assert said is None or redacted(text) == said
    for secret in ("abcdef0123456789", "dXNlcjpwYXNzd29yZA", "correcthorse", "s3cret", "AAF1x"):
        assert secret not in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "session ses_1hf7yatyjkx5rsd17xajr3b1r turn 3 took 12 ms",
        "the token is not the right one",
        "http://127.0.0.1:7420/v1/messages answered 503",
        "tokens_in 1200, tokens_out 80",
        '{"at": 1.5, "event": "turn.committed", "tokens_in": 12345678, "tokens_out": 80}',
        "agent:main:telegram:dm:123456789 was answered",
        "the secret of the webhook is blank",
    ],
)
def test_what_is_no_secret_stays_readable(text):
    assert redacted(text) == text
