"""A reply on Slack grows in one message, and an edit says what is certain about it."""

import pytest

from holdfast.channels.slack import make_slack
from holdfast.kernel.errors import ConfigInvalid
from holdfast.outbox.draft import MARK
from holdfast.outbox.post import Declined, Doubtful, NotSent, Sent
from tests.channels.slack.kit import channel_of, post_to, setup_of
from tests.platforms.slack import Fault
from tests.support.drafts import HALF, WHOLE, delivered, streaming
from tests.support.fakes import Gate, kinds


@pytest.fixture
async def channel(world):
    made = channel_of(world.slack, world.bot)
    yield made
    await made.close()


async def test_a_reply_grows_in_one_message_and_the_bot_does_not_hear_itself(world, tmp_path, monkeypatch):
    monkeypatch.setenv("BOT", world.bot.token)
    monkeypatch.setenv("APP", world.bot.app_token)
    slack, gate = world.slack, Gate()

    def texts():
        return [one["text"] for one in slack.posts(world.dm)]

    table = {"token_env": "BOT", "app_token_env": "APP", "api_url": slack.api_url}
    async with await streaming(tmp_path, "slack", gate, **table) as runtime:
        await slack.until(lambda: world.bot.connects)
        slack.say(world.dm, world.ada, "hello")
        await slack.until(lambda: slack.posts(world.dm))
        [posted] = slack.posts(world.dm)
        assert posted["text"] == f"{HALF}{MARK}"
        slack.faults.append(Fault("chat.update", cut=True, effect=True))  # the answer to the final edit is lost
        gate.open()
        row = await delivered(runtime)
        slack.say(world.dm, world.ada, "and?")
        await slack.until(lambda: texts() == [WHOLE.replace("&", "&amp;"), "re: and?"])
        heard = await kinds(runtime, (await runtime.trace(row.message)).session)
    assert heard == ["user", "assistant"] * 2
    assert (row.state, row.draft, row.receipt) == ("delivered", "replaced", posted["ts"])


OUTCOMES = [
    (Fault("chat.update", status=429, error="ratelimited", headers={"Retry-After": "30"}), NotSent),
    (Fault("chat.update", error="message_not_found"), Declined),
    (Fault("chat.update", error="cant_update_message"), Declined),
    (Fault("chat.update", error="edit_window_closed"), Declined),
    (Fault("chat.update", error="token_revoked"), NotSent),
    (Fault("chat.update", error="internal_error"), Doubtful),
    (Fault("chat.update", cut=True, effect=True), Doubtful),
]


@pytest.mark.parametrize(("fault", "kind"), OUTCOMES, ids=lambda case: getattr(case, "error", ""))
async def test_each_failure_of_an_edit_says_what_it_proves(world, channel, fault, kind):
    post = post_to(world.room, "first")
    sent = await channel.send(post)
    world.slack.faults.append(fault)
    assert isinstance(await channel.edit(post.address, sent.receipt, "second"), kind)


async def test_an_edit_is_escaped_parses_no_names_and_may_be_repeated(world, channel):
    post = post_to(world.room, "first")
    sent = await channel.send(post)
    for _ in range(2):
        assert await channel.edit(post.address, sent.receipt, "<!channel> & @ada") == sent
    (message,) = world.slack.posts(world.room)
    assert message["text"] == "&lt;!channel&gt; &amp; @ada"
    assert {params["parse"] for method, params in world.slack.requests if method == "chat.update"} == {"none"}


async def test_a_message_is_retracted_once_and_is_gone(world, channel):
    post = post_to(world.room, "first")
    sent = await channel.send(post)
    for _ in range(2):
        assert await channel.retract(post.address, sent.receipt) == Sent(sent.receipt)
    assert world.slack.posts(world.room) == []
    assert isinstance(await channel.edit(post.address, sent.receipt, "second"), Declined)


def test_the_setting_is_off_by_default_and_takes_yes_or_no_only():
    names = {"token_env": "BOT", "app_token_env": "APP"}
    secrets = {"BOT": "xoxb-1", "APP": "xapp-1"}
    assert not make_slack(setup_of(names, environment=secrets)).capabilities.drafts
    assert make_slack(setup_of({**names, "stream": True}, environment=secrets)).capabilities.drafts
    with pytest.raises(ConfigInvalid, match=r"slack.stream is 'on': it must be true or false"):
        make_slack(setup_of({**names, "stream": "on"}, environment=secrets))


async def test_edits_keep_to_the_pace_that_slack_asks_for(channel):
    """chat.update takes about fifty calls a minute in the whole workspace."""
    assert channel.capabilities.account_edit_interval_ms * 50 >= 60_000
