"""The rooms of a guild in which somebody may have spoken unheard: its channels and its active threads.

Discord tells the newest message of each when it shows a guild, so a room in which nothing is new costs no request. It
shows bots no conversations of two and no archived threads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import discord

Spoken: TypeAlias = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread


@dataclass(frozen=True, slots=True)
class GuildChannel:
    channel_id: int
    newest: int  # its newest message, which may have been deleted since
    is_open: Callable[[], bool]  # whether the bot may read it


def rooms_of(guild: discord.Guild, user_id: int) -> list[GuildChannel]:
    """`user_id` is the bot's."""
    me = guild.get_member(user_id)
    spoken: list[Spoken] = [*guild.text_channels, *guild.voice_channels, *guild.stage_channels, *guild.threads]
    return [
        GuildChannel(one.id, one.last_message_id, partial(_may_read, one, me)) for one in spoken if one.last_message_id
    ]


def _may_read(room: Spoken, me: discord.Member | None) -> bool:
    """Discord locks out who asks too often for what is closed to them; where nobody can say, it is asked."""
    if me is None or (isinstance(room, discord.Thread) and room.parent is None):
        return True
    allowed = room.permissions_for(me)
    return allowed.view_channel and allowed.read_message_history
