"""The channels and active threads of a guild that may hold missed messages.

When Discord shows a guild, it tells the newest message of each channel, so a channel without newer messages costs no
request. Discord does not list private chats and archived threads to bots.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import discord

TextChannel: TypeAlias = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread


@dataclass(frozen=True, slots=True)
class GuildChannel:
    channel_id: int
    newest: int  # its newest message, which may be deleted by now
    is_readable: Callable[[], bool]  # whether the bot has the permission


def channels_of(guild: discord.Guild, user_id: int) -> list[GuildChannel]:
    """The guild's channels that hold messages. `user_id` is the bot's."""
    me = guild.get_member(user_id)
    channels: list[TextChannel] = [*guild.text_channels, *guild.voice_channels, *guild.stage_channels, *guild.threads]
    return [
        GuildChannel(one.id, one.last_message_id, partial(_may_read, one, me))
        for one in channels
        if one.last_message_id
    ]


def _may_read(channel: TextChannel, me: discord.Member | None) -> bool:
    """Discord bans clients that often request forbidden channels. If the permission is unknown, the bot tries."""
    if me is None or (isinstance(channel, discord.Thread) and channel.parent is None):
        return True
    allowed = channel.permissions_for(me)
    return allowed.view_channel and allowed.read_message_history
