"""`tools/sbom.py` checks the list of shipped packages."""

import pytest

from tools.sbom import missing

LOCK = """msgspec==0.21.1 \\
    --hash=sha256:aa
typing-extensions==4.16.0 ; python_version < '3.13' \\
    --hash=sha256:bb
"""
HASHED = [{"type": "distribution", "hashes": [{"alg": "SHA-256", "content": "aa"}]}]


def listed(*components):
    return {"components": [{"externalReferences": HASHED, **one} for one in components]}


def test_a_whole_list_is_whole():
    names = [{"name": "msgspec", "version": "0.21.1"}, {"name": "typing_extensions", "version": "4.16.0"}]
    assert missing(listed(*names), LOCK) == []


@pytest.mark.parametrize(
    "second",
    [
        {"name": "somebody-else", "version": "4.16.0"},
        {"name": "typing-extensions", "version": "4.15.0"},
        {"name": "typing-extensions", "version": "4.16.0", "externalReferences": []},
    ],
    ids=["left-out", "another-version", "without-hashes"],
)
def test_what_is_left_out_is_named(second):
    assert missing(listed({"name": "msgspec", "version": "0.21.1"}, second), LOCK) == ["typing-extensions==4.16.0"]
