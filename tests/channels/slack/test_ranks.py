"""On Slack the admins and owners of the workspace are admins of every channel; the creator of a channel is an admin of
that channel.
"""

from dataclasses import replace

import pytest

from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import AgentName
from holdfast.turns.policy import AccessPolicy, Door
from tests.channels.slack.kit import channel_of
from tests.platforms.slack import Fault
from tests.support.approving import hasty
from tests.support.fakes import Process, ScriptedModel, agents, policy, says

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)


class Workspace:
    def __init__(self, world, folder):
        self.world, self.slack = world, world.slack
        self._folder = folder

    async def __aenter__(self):
        channel = channel_of(self.slack, self.world.bot)
        channel.capabilities = hasty(channel.capabilities)
        who = agents(ScriptedModel(otherwise=says("noted")), replace(policy(), access=OPEN))
        channels = Channels({(AgentName("main"), "slack"): channel})
        self.process = await Process.start(self._folder, who, channels=channels)
        await self.slack.until(lambda: self.world.bot.connects)
        return self

    async def __aexit__(self, *_):
        await self.process.__aexit__(None, None, None)

    async def says(self, user, text):
        room, bot = self.world.room, self.world.bot
        before = len(self.slack.posts(room))
        self.slack.say(room, user, f"<@{bot.user}> {text}")
        await self.slack.until(lambda: len(self.slack.posts(room)) > before)
        return self.slack.posts(room)[before]["text"]


@pytest.mark.parametrize("rank", ["is_admin", "is_owner", "is_primary_owner", "creator", ""])
async def test_who_is_an_admin_of_a_channel(world, tmp_path, rank):
    chief = world.slack.person("Chief")
    if rank == "creator":
        world.slack.rooms[world.room].creator = chief
    elif rank:
        world.slack.people[chief][rank] = True
    async with Workspace(world, tmp_path) as workspace:
        await workspace.says(world.ada, "the harbour is blue")
        told = await workspace.says(chief, "/new")
        assert told.startswith("New session" if rank else "Only an admin of this group or an operator")
        assert (await workspace.says(world.ada, "/stop")) == "Nothing is running."


@pytest.mark.parametrize("method", ["users.info", "conversations.info"])
async def test_a_workspace_that_gives_no_answer_makes_no_sender_an_admin(world, tmp_path, method):
    async with Workspace(world, tmp_path) as workspace:
        await workspace.says(world.ada, "the harbour is blue")
        world.slack.faults.append(Fault(on=method, error="missing_scope"))
        assert "could not be asked" in await workspace.says(world.ada, "/new")
        assert (await workspace.says(world.ada, "/new")).startswith("Only an admin")
