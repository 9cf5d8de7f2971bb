"""The settings of a Slack channel, with its secrets read.

token_env or token_file                    the bot's token, xoxb-...
mode = "socket" | "http"                   socket mode needs no public address; in HTTP mode Slack calls Holdfast
app_token_env or app_token_file            socket mode: the app-level token, xapp-...
signing_secret_env or signing_secret_file  HTTP mode: the secret that Slack signs its requests with
api_url                                    an API server other than Slack's own
stream                                     show a reply in the chat while it is generated
"""

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from holdfast.channels.settings import check_unused, check_url, invalid, read_secret
from holdfast.inbox.channel import ChannelSetup
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import read_table

API_URL = "https://slack.com/api"
HINTS = {"mode": 'it must be "socket" or "http"', "stream": "it must be true or false"}
SOCKET_ONLY = ("app_token_env", "app_token_file")
HTTP_ONLY = ("signing_secret_env", "signing_secret_file")


class SlackTable(msgspec.Struct, frozen=True, kw_only=True):
    token_env: str | None = None
    token_file: str | None = None
    mode: Literal["socket", "http"] = "socket"
    app_token_env: str | None = None
    app_token_file: str | None = None
    signing_secret_env: str | None = None
    signing_secret_file: str | None = None
    api_url: str = API_URL
    send_key_over_plain_http: bool = False
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackSettings:
    """Exactly one of `app_token` (socket mode) and `signing_secret` (HTTP mode) is set."""

    token: str = field(repr=False)
    app_token: str | None = field(default=None, repr=False)
    signing_secret: str | None = field(default=None, repr=False)
    api_url: str = API_URL
    stream: bool = False


def read_slack(setup: ChannelSetup) -> SlackSettings:
    """Read the channel's table. Raises `ConfigInvalid`, which never contains a secret."""
    table = read_table(setup.name, setup.settings, SlackTable, HINTS)
    token = read_secret(setup, table.token_env, table.token_file)
    api_url = check_url(setup, table.api_url, plain_http=table.send_key_over_plain_http)
    if table.mode == "http":
        check_unused(setup, table, SOCKET_ONLY, 'it is used in socket mode only; remove it, or set mode = "socket"')
        secret = _signing_secret(setup, table)
        return SlackSettings(token=_bot(setup, token), signing_secret=secret, api_url=api_url, stream=table.stream)
    check_unused(setup, table, HTTP_ONLY, 'it needs mode = "http"; set the mode, or remove the key')
    app_token = read_secret(setup, table.app_token_env, table.app_token_file, name="app_token")
    if token.startswith("xapp-") or app_token.startswith("xox"):
        what = "the tokens are swapped: token is the bot's (xoxb-...), app_token the app-level one (xapp-...)"
        raise ConfigInvalid(f"{setup.name}: {what}", key="app_token")
    return SlackSettings(token=token, app_token=app_token, api_url=api_url, stream=table.stream)


def _bot(setup: ChannelSetup, token: str) -> str:
    if token.startswith("xapp-"):
        invalid(setup, "token", "its value is an app-level token (xapp-...); HTTP mode uses the bot's token (xoxb-...)")
    return token


def _signing_secret(setup: ChannelSetup, table: SlackTable) -> str:
    """HTTP mode without a secret is refused."""
    secret = read_secret(setup, table.signing_secret_env, table.signing_secret_file, name="signing_secret")
    if secret.startswith(("xox", "xapp-")):
        what = "its value is a token; the signing secret is on the app's page Basic Information"
        invalid(setup, "signing_secret", what)
    return secret
