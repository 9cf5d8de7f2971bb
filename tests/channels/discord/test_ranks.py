"""On Discord the owner of a server and the members with the permission to administrate or manage it are its admins; no
other member is.
"""

from dataclasses import replace

import pytest

from holdfast.channels.discord import make_discord
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import AgentName
from holdfast.turns.policy import AccessPolicy, Door
from tests.channels.discord.kit import setup_of
from tests.platforms.discord import Fault
from tests.platforms.discord_shapes import ADMINISTRATOR, MANAGE_GUILD, SEND
from tests.support.fakes import Process, ScriptedModel, agents, policy, says

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)


class Server:
    def __init__(self, world, folder):
        self.world, self.fake = world, world.fake
        self._folder = folder

    async def __aenter__(self):
        channel = make_discord(setup_of(self.fake, self.world.bot))
        who = agents(ScriptedModel(otherwise=says("noted")), replace(policy(), access=OPEN))
        channels = Channels({(AgentName("main"), "discord"): channel})
        self.process = await Process.start(self._folder, who, channels=channels)
        await self.fake.until(lambda: self.fake.is_connected(self.world.bot))
        return self

    async def __aexit__(self, *_):
        await self.process.__aexit__(None, None, None)

    def answers(self):
        return self.fake.texts(self.world.room, self.world.bot.user)

    async def says(self, user, text):
        before, bot = len(self.answers()), self.world.bot
        self.fake.say(self.world.room, user, f"<@{bot.id}> {text}", mentions=[bot.user])
        await self.fake.until(lambda: len(self.answers()) > before)
        return self.answers()[before]


@pytest.mark.parametrize(
    ("permissions", "may"),
    [(ADMINISTRATOR, True), (MANAGE_GUILD, True), (SEND, False), (None, False)],
    ids=["administrator", "manager", "another role", "no role"],
)
async def test_who_is_an_admin_of_a_server(world, tmp_path, permissions, may):
    chief = world.fake.add_user("Chief")
    if permissions is not None:
        world.fake.give_role(world.guild, chief, permissions)
    async with Server(world, tmp_path) as server:
        await server.says(world.ann, "the harbour is blue")
        told = await server.says(chief, "/new")
    assert told.startswith("New session" if may else "Only an admin of this group or an operator")
    assert len([line for line in world.fake.requests if "/members/" in line]) == 1


async def test_the_owner_is_an_admin_and_a_member_may_undo_their_own(world, tmp_path):
    chief = world.fake.add_user("Chief")
    world.guild.owner = chief["id"]
    async with Server(world, tmp_path) as server:
        await server.says(world.ann, "the harbour is blue")
        assert (await server.says(world.ann, "/new")).startswith("Only an admin")
        assert (await server.says(world.ann, "/undo")).startswith("Took back 1 turn.")
        await server.says(world.ann, "the harbour is red")
        assert (await server.says(chief, "/new")).startswith("New session")


async def test_a_server_that_gives_no_answer_makes_no_sender_an_admin(world, tmp_path):
    chief = world.fake.add_user("Chief")
    world.fake.give_role(world.guild, chief, ADMINISTRATOR)
    async with Server(world, tmp_path) as server:
        await server.says(world.ann, "the harbour is blue")
        world.fake.faults.append(Fault(on="/members/", status=403, body='{"message": "Missing Access", "code": 50001}'))
        assert "could not be asked" in await server.says(chief, "/new")
        assert (await server.says(chief, "/new")).startswith("New session")
