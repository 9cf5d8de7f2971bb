"""The promise: a channel uses the proxy that the environment names, except for plain http on this machine."""

import pytest

from holdfast.channels.http import proxy_for
from holdfast.kernel.errors import ConfigInvalid

SLACK = "https://slack.com/api"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, SLACK, None),
        ({"https_proxy": "http://proxy.example:3128"}, SLACK, "http://proxy.example:3128"),
        ({"http_proxy": "proxy.example:3128"}, SLACK, "http://proxy.example:3128"),
        ({"https_proxy": "http://proxy.example:3128", "no_proxy": "slack.com"}, SLACK, None),
        ({"http_proxy": "http://proxy.example:3128"}, "http://127.0.0.1:8080/api", None),
    ],
)
def test_the_environment_names_the_proxy(environment, variables, url, proxy):
    for name, value in variables.items():
        environment.setenv(name, value)
    assert proxy_for(url) == proxy


def test_a_proxy_of_another_kind_is_refused(environment):
    environment.setenv("https_proxy", "socks5://user:secret@proxy.example")
    with pytest.raises(ConfigInvalid, match="socks5") as refused:
        proxy_for(SLACK)
    assert "secret" not in str(refused.value)
