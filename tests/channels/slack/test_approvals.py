"""Slack does not pass on messages that begin with a slash: the question says what to do instead, and that works."""

import pytest

from tests.channels.slack.kit import channel_of
from tests.support.approving import Till, asked_in, hasty, start


@pytest.mark.parametrize("form", [" /approve {id}", "<@{bot}> /approve {id}"], ids=["a space", "a mention"])
async def test_a_question_in_a_channel_is_answered_in_a_form_that_reaches_us(world, tmp_path, form):
    slack, till = world.slack, Till()

    def answers():
        return [one["text"] for one in slack.posts(world.room)]

    channel = channel_of(slack, world.bot)
    channel.capabilities = hasty(channel.capabilities)
    process = await start(tmp_path, "slack", channel, till)
    async with process:
        await slack.until(lambda: world.bot.connects)
        slack.say(world.room, world.ada, f"<@{world.bot.user}> pay him")
        await slack.until(lambda: len(answers()) == 1)
        approval = asked_in(answers())
        hint = "Slack does not pass on messages that begin with a slash: mention me before the command."
        assert answers()[0].endswith(hint)
        slack.say(world.room, world.ada, form.format(id=approval, bot=world.bot.user))
        await slack.until(lambda: len(answers()) == 3)
    assert answers()[1:] == [f"Approved: pay ({approval}) runs once.", "all done"]
    assert till.paid == [3]
