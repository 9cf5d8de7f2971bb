"""In a guild where the bot answers only messages that mention it, a plain `/approve ID` for a call that waits in the
same channel counts as addressed to the bot. No other message does, and no other person may decide.
"""

from holdfast.channels.discord import make_discord
from tests.channels.discord.kit import setup_of
from tests.support.approving import Till, asked_in, start


async def test_a_plain_answer_in_a_guild_decides_what_waits_there(world, tmp_path):
    fake, till = world.fake, Till()
    bob = fake.add_user("Bob")

    def answers():
        return fake.texts(world.room, world.bot.user)

    process = await start(tmp_path, "discord", make_discord(setup_of(fake, world.bot)), till)
    async with process:
        await fake.until(lambda: fake.is_connected(world.bot))
        fake.say(world.room, world.ann, f"<@{world.bot.id}> pay him", mentions=[world.bot.user])
        await fake.until(lambda: len(answers()) == 1)
        approval = asked_in(answers())
        fake.say(world.room, world.ann, "/approve ZZZZZZ")  # names nothing that waits here: overheard
        fake.say(world.room, world.ann, "/status")  # as it was: not addressed
        fake.say(world.room, bob, f"/approve {approval}")
        await fake.until(lambda: len(answers()) == 2)
        who = "the person who asked for the call, an admin of this group or an operator"
        assert answers()[-1] == f"Only {who} may give /approve here. Nothing was changed."
        assert till.paid == []
        fake.say(world.room, world.ann, f"/approve {approval}")
        await fake.until(lambda: len(answers()) == 4)
    assert answers()[2:] == [f"Approved: pay ({approval}) runs once.", "all done"]
    assert till.paid == [3]
