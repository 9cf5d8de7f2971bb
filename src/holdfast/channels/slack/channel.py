"""One Slack app as a channel: it receives over socket mode or over HTTP, and posts over the Web API.

Rule 1: a bad token ends the run with a sentence; a lost connection is made again, with growing delays.
Rule 2: Slack gives bots no typing indicator, so none is shown.
Rule 3: Slack spreads an app's events over all its connections: one app belongs to one agent in one process.
Rule 4: without a signing secret nothing that comes over HTTP is read.
"""

from collections.abc import Mapping

from holdfast.channels.slack.connection import SocketModeConnection
from holdfast.channels.slack.hook import SlackWebhook
from holdfast.channels.slack.message import SlackIdentity, word
from holdfast.channels.slack.people import SlackUsers
from holdfast.channels.slack.posting import delete_post, edit_post, send_post
from holdfast.channels.slack.reading import SlackReader
from holdfast.channels.slack.settings import SlackSettings, read_slack
from holdfast.channels.slack.text import escaped_length
from holdfast.channels.slack.web import SlackFailure, SlackFailureKind, SlackWebApi
from holdfast.inbox.address import Address
from holdfast.inbox.channel import Channel, ChannelCapabilities, ChannelSetup, Intake, WebhookAnswer, WebhookRequest
from holdfast.inbox.chat_message import ChatMessage
from holdfast.kernel import log
from holdfast.kernel.errors import BadSignature, ChannelFailed, HoldfastError
from holdfast.kernel.retry import RetryPolicy
from holdfast.outbox.post import Post, SendOutcome
from holdfast.sessions.command_rights import Rank

TEXT_CHARS_MAX = 3_900  # Slack recommends at most 4,000 and cuts at 40,000
CHAT_INTERVAL_MS = 1_000  # one message per second and channel, says Slack
EDIT_INTERVAL_MS = 1_500  # chat.update takes about fifty calls a minute in the whole workspace (tier 3)
COMMAND_HINT = "Slack keeps what begins with a slash to itself: mention me in front of it."
RETRY = RetryPolicy(delay_ms_base=200, delay_ms_max=60_000)
SETTLED_MS = 30_000  # a line that lasted this long is made again with the shortest delay


class SlackChannel:
    """Implements `Channel`, `Editing` and `Hooked`."""

    def __init__(self, setup: ChannelSetup, settings: SlackSettings) -> None:
        self.capabilities = ChannelCapabilities(
            text_chars_max=TEXT_CHARS_MAX,
            text_length=escaped_length,
            chat_interval_ms=CHAT_INTERVAL_MS,
            drafts=settings.stream,
            account_edit_interval_ms=EDIT_INTERVAL_MS,
            command_hint=COMMAND_HINT,
        )
        self._setup = setup
        self._app_token = settings.app_token or ""
        self._hook = SlackWebhook(setup, settings.signing_secret) if settings.signing_secret else None
        self._web = SlackWebApi(settings.token, settings.api_url)
        self._people = SlackUsers(self._web, setup.clock)
        self._who = ""

    async def run(self, intake: Intake) -> None:
        me = await self._identify()
        reading = SlackReader(self._setup, self._web, self._people, me, intake)
        try:
            if self._hook is not None:
                await self._hook.stay(reading, intake, self._check)
            else:
                await self._hold_lines(reading, intake)
        finally:
            await reading.close()

    async def identify(self) -> str:
        """The bot's name. Raises `ChannelFailed`."""
        await self._identify()
        return self._who

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raises `BadSignature` and `UnsupportedMediaType`."""
        if self._hook is None:
            raise BadSignature("this channel is in socket mode; nothing that is posted here is read")
        self._hook.check_head(headers)

    async def hook(self, request: WebhookRequest, intake: Intake) -> WebhookAnswer:  # noqa: ARG002 - `run` has it, too
        """200 when the event is durable, 503 when it should come again. Raises `BadSignature`."""
        if self._hook is None:
            raise BadSignature("this channel is in socket mode; nothing that is posted here is read")
        return await self._hook.answer(request)

    async def _hold_lines(self, reading: SlackReader, intake: Intake) -> None:
        failures = 0
        while True:
            began = self._setup.clock.now()
            failure = await self._attend(reading, intake)
            intake.disconnected(failure.code, vendor=failure.vendor)
            lasted = self._setup.clock.now() - began
            failures = 1 if lasted >= SETTLED_MS else failures + 1
            await self._setup.tasks.sleep(RETRY.delay_ms(failures, self._setup.entropy.fraction()))

    async def _check(self) -> SlackFailure | None:
        """Why Slack is not there; None when it is. Raises `ChannelFailed` when it does not take the token."""
        answer = await self._web.post("auth.test", {})
        return _passing("bot", answer) if isinstance(answer, SlackFailure) else None

    async def _identify(self) -> SlackIdentity:
        answer = await self._web.post("auth.test", {})
        if isinstance(answer, SlackFailure):
            raise _failed("bot", answer)
        me = SlackIdentity(
            team=word(answer, "team_id"),
            user=word(answer, "user_id"),
            bot=word(answer, "bot_id"),
            name=word(answer, "user"),
        )
        if not me.team or not me.user:
            raise ChannelFailed("slack: auth.test names no team and no user; is api_url Slack's API?")
        self._who = f"@{me.name}" if me.name else me.user
        return me

    async def _attend(self, reading: SlackReader, intake: Intake) -> SlackFailure:
        """Hold one line until it ends; why it did. Raises `ChannelFailed` when another would end the same way."""
        line = SocketModeConnection(self._app_token, self._web.client)
        try:
            failure = await line.open()
            if failure is not None:
                passing = _passing("app-level", failure)
                await self._setup.tasks.sleep(failure.retry_after_ms)
                return passing
            intake.connected(self._who)
            await reading.attend(line)
        except HoldfastError as error:
            if isinstance(error, ChannelFailed):
                raise
            return SlackFailure(
                SlackFailureKind.UNREACHED, f"how far conversations were read is not known: {error.code}"
            )
        finally:
            await line.close()
        if reading.is_broken:
            raise ChannelFailed(f"slack: {line.reason}")
        return SlackFailure(SlackFailureKind.UNREACHED, line.reason)

    async def send(self, post: Post) -> SendOutcome:
        return await send_post(self._web, post)

    async def edit(self, address: Address, receipt: str, text: str) -> SendOutcome:
        return await edit_post(self._web, address, receipt, text)

    async def retract(self, address: Address, receipt: str) -> SendOutcome:
        return await delete_post(self._web, address, receipt)

    async def rank(self, message: ChatMessage) -> Rank:
        found = await self._people.rank(message.chat, message.sender.partition(".")[2])
        if found is Rank.UNKNOWN:
            log.warning("rank.unknown", agent=self._setup.agent, channel=self._setup.name)
        return found

    async def typing(self, address: Address) -> None:
        """Slack has no typing indicator for bots."""

    async def close(self) -> None:
        await self._web.close()


def _passing(which: str, failure: SlackFailure) -> SlackFailure:
    """The failure, if it passes. Raises `ChannelFailed` for others."""
    if failure.passes:
        return failure
    raise _failed(which, failure)


def _failed(which: str, failure: SlackFailure) -> ChannelFailed:
    if failure.kind in (SlackFailureKind.BAD_TOKEN, SlackFailureKind.REFUSED):
        what = f"Slack does not take the {which} token ({failure.code}); check it, and the scopes of the app"
        return ChannelFailed(f"slack: {what}", code=failure.code, vendor=failure.vendor)
    return ChannelFailed(f"slack: {failure.code}", code=failure.code, vendor=failure.vendor)


def make_slack(setup: ChannelSetup) -> Channel:
    """The channel that the settings describe. Raises `ConfigInvalid`; does no I/O but reading secret files."""
    return SlackChannel(setup, read_slack(setup))
