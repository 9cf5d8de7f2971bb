"""Slack, over socket mode or over HTTP. Either way an event is acknowledged when it is durable.

Socket mode needs no public address: the app has it switched on, and an app-level token with the scope
connections:write. Over HTTP the app's request URL leads to /v1/hooks/<agent>/<channel>, and its signing secret is set.

The app's bot has the scopes app_mentions:read, chat:write, users:read and files:read, and of channels, groups, im and
mpim each :history and :read, with which what was missed is found; and metadata.message:read, with which a post in doubt
is found again. It subscribes to the events app_mention, message.channels, message.groups, message.im and message.mpim.
"""

from holdfast.channels.slack.channel import SlackChannel, make_slack

__all__ = ["SlackChannel", "make_slack"]
