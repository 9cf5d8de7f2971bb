"""A wrong setting is a sentence before anything is sent; the key is never in it."""

import subprocess
import sys

import pytest

from holdfast.kernel.errors import ConfigInvalid
from holdfast.providers.hindsight import make_hindsight
from tests.support.hindsight_parcels import setup

URL = "http://127.0.0.1:8888"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bnak": "x"}, "hindsight.bnak is not a setting; did you mean bank?"),
        ({"bank": "{who}"}, "{who} is not a placeholder"),
        ({"every_turns": 0}, "hindsight.every_turns is 0"),
        ({"every_turns": "2"}, "hindsight.every_turns is '2'"),
        ({"max_wait_s": -1}, "hindsight.max_wait_s is -1"),
        ({"recall_budget": "huge"}, "hindsight.recall_budget is 'huge'"),
        ({"api_key_env": "HS_KEY"}, "the environment has no HS_KEY"),
        ({"api_key_env": "sk-123 456"}, "not the key itself"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(settings, said):
    with pytest.raises(ConfigInvalid) as caught:
        make_hindsight(setup(URL, **settings))
    assert said in str(caught.value)
    assert "123 456" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:8888", "ftp://host", "file:///etc/passwd", "http://", "http://host:99999", "http://host:0"),
        *("http://u:p@host", "http://host/?a=1", "http://host/#x", "http://ho st", "http://[::1"),
        *("http://169.254.169.254", "http://[fe80::1]", "http://[::ffff:169.254.169.254]", "http://2852039166"),
        *("http://0xa9fea9fe", "http://metadata.google.internal.", "http://100.100.100.200", "http://[fd00:ec2::254]"),
    ],
)
def test_an_address_where_no_memory_service_is_is_refused(url):
    with pytest.raises(ConfigInvalid, match=r"hindsight\.url"):
        make_hindsight(setup(url))


def test_the_settings_become_the_schedule():
    made = make_hindsight(setup(URL, every_turns=4, max_wait_s=60))
    assert (made.every_turns, made.max_wait_ms) == (4, 60_000)
    assert made.provider.capabilities.renderer == "hindsight/2"


def test_the_package_does_not_load_the_vendors_library():
    code = "import sys, holdfast.providers.hindsight; sys.exit('hindsight_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
