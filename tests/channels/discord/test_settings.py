"""A channel's table is checked before anything is sent, and no error repeats a secret."""

from dataclasses import replace

import pytest

from holdfast.channels.discord import make_discord
from holdfast.kernel.errors import ConfigInvalid
from holdfast.outbox.splitting import utf16_length
from tests.channels.discord.kit import setup_of
from tests.platforms.discord import FakeDiscord

SECRET = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"


def complaint(settings: dict[str, object], environment: dict[str, str] | None = None) -> str:
    fake = FakeDiscord()
    fake.url = "http://127.0.0.1:1/api/v10"
    setup = replace(setup_of(fake, fake.add_bot("Ada")), settings=settings, environment=environment or {})
    with pytest.raises(ConfigInvalid) as caught:
        make_discord(setup)
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "neither token_env nor token_file is set"),
        ({"token_env": "A", "token_file": "b"}, "are both set; remove one"),
        ({"token": SECRET}, "a secret must not be in the configuration; name its place with token_env or token_file"),
        ({"token_env": SECRET}, "it must be the name of an environment variable"),
        ({"token_env": "NOT_SET"}, "the environment has no NOT_SET"),
        ({"token_env": 17}, "discord.token_env: Expected `str | null`"),
        ({"token_env": "BLANKS"}, "characters that no secret has"),
        ({"token_file": SECRET}, "it names no readable file"),
        (
            {"token_env": "A", "guild": 1},
            "discord.guild is not a setting; the settings are token_env, token_file",
        ),
        ({"token_env": "A", "api_url": "ftp://x"}, "it must start with http:// or https:// and a host"),
        ({"token_env": "A", "api_url": "http://example.com"}, "over plain http"),
        ({"token_env": "A", "api_url": "https://u:p@example.com"}, "no user and no password"),
        ({"token_env": "A", "api_url": "https://example.com/?a=1"}, "without ?, # or blanks"),
        ({"token_env": "A", "api_url": "https://example.com:99999"}, "it is no address"),
    ],
)
def test_a_table_that_cannot_be_right_is_refused_with_what_would_be(settings, words):
    assert words in complaint(settings, {"A": SECRET, "BLANKS": f"{SECRET} {SECRET}"})


def test_a_token_may_be_in_a_file(tmp_path):
    (tmp_path / "token").write_text(f"{SECRET}\n", encoding="utf-8")
    fake = FakeDiscord()
    fake.url = "http://127.0.0.1:1/api/v10"
    bot = fake.add_bot("Ada")
    channel = make_discord(replace(setup_of(fake, bot), settings={"token_file": "token"}, folder=tmp_path))
    assert SECRET not in repr(channel)
    (tmp_path / "token").write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigInvalid, match="the file is empty"):
        make_discord(replace(setup_of(fake, bot), settings={"token_file": "token"}, folder=tmp_path))


def test_text_is_counted_as_discords_apps_do():
    assert utf16_length("a😀") == 3
