"""Discord, through discord.py (the extra `discord`).

On Python before 3.13 discord.py imports the deprecated `audioop` for voice, which Holdfast does not use, so the warning
is suppressed. Its log is silent unless the operator adds a handler, like ours.
"""

import logging
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord

logging.getLogger("discord").addHandler(logging.NullHandler())
discord.VoiceClient.warn_nacl = False
discord.VoiceClient.warn_dave = False

from holdfast.channels.discord.channel import DiscordChannel, make_discord  # noqa: E402 (discord.py must come first)

__all__ = ["DiscordChannel", "make_discord"]
