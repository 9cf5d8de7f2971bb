"""Slack, over socket mode: no public address is needed, and an event is acknowledged when it is durable.

The app has socket mode switched on, and an app-level token with the scope connections:write. Its bot has the scopes
app_mentions:read, chat:write, users:read and files:read, and of channels, groups, im and mpim each :history; and
metadata.message:read, with which a post in doubt is found again. It subscribes to the events app_mention,
message.channels, message.groups, message.im and message.mpim.
"""

from holdfast.channels.slack.channel import SlackChannel, make_slack

__all__ = ["SlackChannel", "make_slack"]
