"""The settings of a Telegram channel, with its secrets read.

token_env or token_file                    the bot's token, from @BotFather
mode = "polling" | "webhook"               Holdfast polls Telegram, or Telegram calls Holdfast
webhook_url                                the public https address of /v1/hooks/<agent>/<channel>
webhook_secret_env or webhook_secret_file  sent by Telegram with each call, to prove that it is the caller
api_url                                    a Bot API server other than Telegram's own
poll_s                                     how long one poll may wait
stream                                     show a reply in the chat while it is generated
"""

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from holdfast.channels.settings import check_unused, check_url, invalid, read_secret
from holdfast.inbox.channel import ChannelSetup
from holdfast.kernel.settings_table import read_table

OFFICIAL = "https://api.telegram.org"
WEBHOOK_ONLY = ("webhook_url", "webhook_secret_env", "webhook_secret_file")
_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{1,200}\Z")
_WEBHOOK_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}\Z")  # the characters that Telegram accepts


class TelegramTable(msgspec.Struct, frozen=True, kw_only=True):
    token_env: str | None = None
    token_file: str | None = None
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: str | None = None
    webhook_secret_env: str | None = None
    webhook_secret_file: str | None = None
    api_url: str = OFFICIAL
    send_key_over_plain_http: bool = False
    poll_s: Annotated[int, msgspec.Meta(ge=1, le=50)] = 30
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramSettings:
    token: str = field(repr=False)
    token_from: str  # the setting that holds the token, for error messages
    webhook: Webhook | None  # None: polling
    api_url: str
    poll_s: int
    stream: bool = False


HINTS = {
    "mode": 'it must be "polling" or "webhook"',
    "poll_s": "it must be a whole number of seconds from 1 to 50",
    "stream": "it must be true or false",
}


def read_telegram(setup: ChannelSetup) -> TelegramSettings:
    """Read the channel's table. Raises `ConfigInvalid`, which never contains a secret."""
    table = read_table(setup.name, setup.settings, TelegramTable, HINTS)
    token = read_secret(setup, table.token_env, table.token_file)
    token_from = f"token_env ({table.token_env})" if table.token_env is not None else "token_file"
    if not _TOKEN.match(token):
        invalid(
            setup, "token", f"the value of {token_from} is no bot token; one from @BotFather looks like 123456:ABC-DEF"
        )
    return TelegramSettings(
        token=token,
        token_from=token_from,
        webhook=_webhook(setup, table),
        api_url=check_url(setup, table.api_url, plain_http=table.send_key_over_plain_http),
        poll_s=table.poll_s,
        stream=table.stream,
    )


def _webhook(setup: ChannelSetup, table: TelegramTable) -> Webhook | None:
    """A webhook without a secret is refused."""
    if table.mode == "polling":
        check_unused(setup, table, WEBHOOK_ONLY, 'it needs mode = "webhook"; set the mode, or remove the key')
        return None
    if not table.webhook_url:
        path = f"/v1/hooks/{setup.agent}/{setup.name}"
        invalid(setup, "webhook_url", f"it is missing; set it to the public https address of {path}")
    secret = read_secret(setup, table.webhook_secret_env, table.webhook_secret_file, name="webhook_secret")
    if not _WEBHOOK_SECRET.match(secret):
        invalid(setup, "webhook_secret", "it must have 1 to 256 characters of A-Z, a-z, 0-9, _ and -")
    return Webhook(url=check_url(setup, table.webhook_url, key="webhook_url"), secret=secret)
