"""An address that a key is sent to is plain, and none at which a machine answers about itself.

Rules: control 12.
"""

import pytest

from holdfast.kernel.settings_table import fault_of_url


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "https://memory.example/v3", "http://[::1]:1/"])
def test_a_plain_address_is_taken(url):
    assert fault_of_url(url) == ""


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://a.example/?key=1", "without ?, # or blanks"),
        ("http://a.example/#part", "without ?, # or blanks"),
        ("http://a.example/a b", "without ?, # or blanks"),
        ("ftp://a.example", "must start with http:// or https://"),
        ("http://", "must start with http:// or https://"),
        ("http://a.example:0", "no port 0"),
        ("http://a.example:70000", "no address"),
        ("http://169.254.169.254/latest", "answer about themselves"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(url, why):
    assert why in fault_of_url(url)
