"""One Slack app as a channel: it receives over socket mode or HTTP, and posts over the Web API.

Rule 1: a rejected token ends the run with an explanation; a lost connection is re-established with growing delays.
Rule 2: Slack offers bots no typing indicator, so none is shown.
Rule 3: Slack spreads an app's events over all its connections, so one app belongs to one agent in one process.
Rule 4: without a signing secret no HTTP request is read.
Rule 5: Slack does not refuse a repeated nonce. Ours travels in the message's metadata, and before a doubtful post is
        repeated, the conversation is searched for it. If it is found, nothing is sent. An unsuccessful search proves
        absence only after a quiet time: Slack may still be processing a request whose answer was lost. Where the search
        is not allowed (no history scope), the post is sent, once more at most, as the outbox decides.
Rule 6: an edit is idempotent. A missing or uneditable message is a refusal. An edit turns names into mentions unless
        `parse` is none, and formats *stars* in any case.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from holdfast.channels.settings import check_unused, check_url, invalid, read_secret
from holdfast.channels.slack.connection import SocketModeConnection
from holdfast.channels.slack.history import EVENT_TYPE, find_post
from holdfast.channels.slack.message import SlackIdentity, escape, escaped_length, string, user_of
from holdfast.channels.slack.reading import NO_POSITIONS, SlackReader
from holdfast.channels.slack.users import SlackUsers
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind, SlackWebApi
from holdfast.channels.slack.webhook import SlackWebhook
from holdfast.inbox.address import Address
from holdfast.inbox.channel import ChannelCapabilities, ChannelSetup, Intake, WebhookAnswer, WebhookRequest
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import BadSignature, ChannelFailed, ConfigInvalid, HoldfastError
from holdfast.kernel.retry import RetryPolicy
from holdfast.kernel.settings_table import read_table
from holdfast.outbox.post import Declined, Doubtful, NotSent, Post, SendOutcome, Sent
from holdfast.sessions.command_rights import Rank

TEXT_CHARS_MAX = 3_900  # Slack recommends at most 4,000 and truncates at 40,000
CHAT_INTERVAL_MS = 1_000  # one message per second and channel, says Slack
EDIT_INTERVAL_MS = 1_500  # chat.update takes about fifty calls a minute in the whole workspace (tier 3)
COMMAND_HINT = "Slack does not pass on messages that begin with a slash: mention me before the command."
SOCKET_MODE = "this channel is in socket mode and accepts no HTTP requests"
RETRY = RetryPolicy(delay_ms_base=200, delay_ms_max=60_000)
QUIET_MS = 30_000  # as long as we wait for an answer
GONE = "message_not_found"
STABLE_MS = 30_000  # a connection that lasted this long is replaced with the shortest delay
API_URL = "https://slack.com/api"
HINTS = {"mode": 'it must be "socket" or "http"', "stream": "it must be true or false"}
SOCKET_ONLY = ("app_token_env", "app_token_file")
HTTP_ONLY = ("signing_secret_env", "signing_secret_file")


class SlackSettings(msgspec.Struct, frozen=True, kw_only=True):
    token_env: str | None = None  # the bot's token, xoxb-...
    token_file: str | None = None
    mode: Literal["socket", "http"] = "socket"  # socket mode needs no public address; in HTTP mode Slack calls Holdfast
    app_token_env: str | None = None  # socket mode: the app-level token, xapp-...
    app_token_file: str | None = None
    signing_secret_env: str | None = None  # HTTP mode: the secret that Slack signs its requests with
    signing_secret_file: str | None = None
    api_url: str = API_URL
    send_key_over_plain_http: bool = False
    stream: bool = False  # show a reply in the chat while it is generated


def make_slack(setup: ChannelSetup) -> "SlackChannel":
    """Raises `ConfigInvalid`, which never contains a secret; reads the files of secrets, and connects to nothing."""
    settings = read_table(setup.name, setup.settings, SlackSettings, HINTS)
    token = read_secret(setup, settings.token_env, settings.token_file)
    api_url = check_url(setup, settings.api_url, plain_http=settings.send_key_over_plain_http)
    app_token = signing_secret = ""
    if settings.mode == "http":
        signing_secret = _signing_secret(setup, settings)
        if token.startswith("xapp-"):
            what = "its value is an app-level token (xapp-...); HTTP mode uses the bot's token (xoxb-...)"
            invalid(setup, "token", what)
    else:
        app_token = _app_token(setup, settings, token)
    return SlackChannel(
        setup, token, api_url, app_token=app_token, signing_secret=signing_secret, stream=settings.stream
    )


def _app_token(setup: ChannelSetup, settings: SlackSettings, token: str) -> str:
    check_unused(setup, settings, HTTP_ONLY, 'it needs mode = "http"; set the mode, or remove the key')
    app_token = read_secret(setup, settings.app_token_env, settings.app_token_file, name="app_token")
    if token.startswith("xapp-") or app_token.startswith("xox"):
        what = "the tokens are swapped: token is the bot's (xoxb-...), app_token the app-level one (xapp-...)"
        raise ConfigInvalid(f"{setup.name}: {what}", key="app_token")
    return app_token


def _signing_secret(setup: ChannelSetup, settings: SlackSettings) -> str:
    """HTTP mode without a secret is refused."""
    check_unused(setup, settings, SOCKET_ONLY, 'it is used in socket mode only; remove it, or set mode = "socket"')
    secret = read_secret(setup, settings.signing_secret_env, settings.signing_secret_file, name="signing_secret")
    if secret.startswith(("xox", "xapp-")):
        what = "its value is a token; the signing secret is on the app's page Basic Information"
        invalid(setup, "signing_secret", what)
    return secret


class SlackChannel:
    """Implements `Channel`, `Editing`, `Identifiable`, `Ranking`, `WebhookChannel` and `HeadCheckedWebhook`."""

    def __init__(
        self,
        setup: ChannelSetup,
        token: str,
        api_url: str,
        *,
        app_token: str = "",  # socket mode
        signing_secret: str = "",  # HTTP mode
        stream: bool = False,
    ) -> None:
        self.capabilities = ChannelCapabilities(
            text_chars_max=TEXT_CHARS_MAX,
            text_length=escaped_length,
            chat_interval_ms=CHAT_INTERVAL_MS,
            drafts=stream,
            account_edit_interval_ms=EDIT_INTERVAL_MS,
            command_hint=COMMAND_HINT,
        )
        self._setup = setup
        self._app_token = app_token
        self._webhook = SlackWebhook(setup, signing_secret) if signing_secret else None
        self._web = SlackWebApi(token, api_url)
        self._users = SlackUsers(self._web, setup.clock)
        self._who = ""

    async def run(self, intake: Intake) -> None:
        me = await self._identify()
        reader = SlackReader(self._setup, self._web, self._users, me, intake)
        try:
            if self._webhook is not None:
                await self._webhook.stay(reader, intake, self._check)
            else:
                await self._keep_connected(reader, intake)
        finally:
            await reader.close()

    async def identify(self) -> str:
        """The bot's name. Raises `ChannelFailed`."""
        await self._identify()
        return self._who

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raises `BadSignature` and `UnsupportedMediaType`."""
        if self._webhook is None:
            raise BadSignature(SOCKET_MODE)
        self._webhook.check_head(headers)

    async def hook(self, request: WebhookRequest, intake: Intake) -> WebhookAnswer:  # noqa: ARG002 - `run` was given the same one
        """Answer 200 when the event is durable, 503 when Slack should redeliver it. Raises `BadSignature`."""
        if self._webhook is None:
            raise BadSignature(SOCKET_MODE)
        return await self._webhook.answer(request)

    async def _keep_connected(self, reader: SlackReader, intake: Intake) -> None:
        failures = 0
        while True:
            began = self._setup.clock.now()
            failure = await self._connect_once(reader, intake)
            intake.disconnected(failure.code, vendor=failure.vendor)
            lasted = self._setup.clock.now() - began
            failures = 1 if lasted >= STABLE_MS else failures + 1
            await self._setup.tasks.sleep(RETRY.delay_ms(failures, self._setup.entropy.fraction()))

    async def _check(self) -> SlackFailure | None:
        """The reason why Slack is unreachable, if it is. Raises `ChannelFailed` when Slack rejects the token."""
        answer = await self._web.post("auth.test", {})
        return _temporary("bot", answer) if isinstance(answer, SlackFailure) else None

    async def _identify(self) -> SlackIdentity:
        answer = await self._web.post("auth.test", {})
        if isinstance(answer, SlackFailure):
            raise _failed("bot", answer)
        me = SlackIdentity(
            team=string(answer, "team_id"),
            user=string(answer, "user_id"),
            bot=string(answer, "bot_id"),
            name=string(answer, "user"),
        )
        if not me.team or not me.user:
            raise ChannelFailed("slack: auth.test names no team and no user; check that api_url is Slack's API")
        self._who = f"@{me.name}" if me.name else me.user
        return me

    async def _connect_once(self, reader: SlackReader, intake: Intake) -> SlackFailure:
        """Keep one connection until it ends, and return the reason. Raises `ChannelFailed` if retrying is useless."""
        connection = SocketModeConnection(self._web, self._app_token)
        try:
            failure = await connection.open()
            if failure is not None:
                reported = _temporary("app-level", failure)
                await self._setup.tasks.sleep(failure.retry_after_ms)
                return reported
            intake.connected(self._who)
            await reader.attend(connection)
        except HoldfastError as error:
            if isinstance(error, ChannelFailed):
                raise
            return SlackFailure(SlackFailureKind.UNREACHED, f"{NO_POSITIONS}: {error.code}")
        finally:
            await connection.close()
        if reader.is_broken:
            raise ChannelFailed(f"slack: {connection.reason}")
        return SlackFailure(SlackFailureKind.UNREACHED, connection.reason)

    async def send(self, post: Post) -> SendOutcome:
        is_absent = False
        if post.doubtful:
            found = await find_post(self._web, post)
            if isinstance(found, str):
                return Sent(found, proved=True)
            if isinstance(found, SlackFailure) and found.is_temporary:
                why = f"Slack could not be searched for an earlier attempt: {found.code}"
                return NotSent(why, found.retry_after_ms, vendor=found.vendor)
            is_absent = found is None and post.doubtful_for_ms >= QUIET_MS
        answer = await self._web.post("chat.postMessage", _body(post))
        if isinstance(answer, SlackFailure):
            return _outcome(answer)
        receipt = string(answer, "ts")
        return Sent(receipt, proved=is_absent) if receipt else Doubtful("Slack answered ok without a message id")

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        body: dict[str, object] = {"channel": address.chat, "ts": receipt, "text": escape(text), "parse": "none"}
        answer = await self._web.post("chat.update", body)
        return _outcome(answer) if isinstance(answer, SlackFailure) else Sent(receipt)

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        answer = await self._web.post("chat.delete", {"channel": address.chat, "ts": receipt})
        if isinstance(answer, SlackFailure) and answer.code != GONE:
            return _outcome(answer)
        return Sent(receipt)

    async def rank(self, message: ChatMessage) -> Rank:
        found = await self._users.rank(message.chat, user_of(message))
        if found is Rank.UNKNOWN:
            log.warning("rank.unknown", agent=self._setup.agent, channel=self._setup.name)
        return found

    async def typing(self, address: Address) -> None:
        """Slack offers bots no typing indicator."""

    async def close(self) -> None:
        await self._web.close()


def _temporary(which: str, failure: SlackFailure) -> SlackFailure:
    """The failure, if it is temporary. Raises `ChannelFailed` otherwise."""
    if failure.is_temporary:
        return failure
    raise _failed(which, failure)


def _failed(which: str, failure: SlackFailure) -> ChannelFailed:
    if failure.kind in (SlackFailureKind.BAD_TOKEN, SlackFailureKind.REFUSED):
        return ChannelFailed(f"slack: {_rejected(which, failure)}", code=failure.code, vendor=failure.vendor)
    return ChannelFailed(f"slack: {failure.code}", code=failure.code, vendor=failure.vendor)


def _rejected(which: str, failure: SlackFailure) -> str:
    return f"Slack does not accept the {which} token ({failure.code}); check the token and the app's scopes"


def _body(post: Post) -> dict[str, object]:
    body: dict[str, object] = {
        "channel": post.address.chat,
        "text": escape(post.text),
        "mrkdwn": False,  # a model's *stars* differ from Slack's, so its text is shown as written
        "unfurl_links": False,
        "unfurl_media": False,
        "metadata": {"event_type": EVENT_TYPE, "event_payload": {"nonce": post.nonce}},
    }
    return body if post.address.thread is None else {**body, "thread_ts": post.address.thread}


def _outcome(failure: SlackFailure) -> SendOutcome:
    match failure.kind:
        case SlackFailureKind.UNREACHED:
            return NotSent(failure.code, vendor=failure.vendor)
        case SlackFailureKind.LIMITED:
            return NotSent(failure.code, failure.retry_after_ms, vendor=failure.vendor)
        case SlackFailureKind.BAD_TOKEN:
            return NotSent(_rejected("bot", failure), whole_account=True, vendor=failure.vendor)
        case SlackFailureKind.REFUSED:
            return Declined(failure.code, vendor=failure.vendor)
        case SlackFailureKind.UNCLEAR:
            return Doubtful(failure.code, vendor=failure.vendor)
