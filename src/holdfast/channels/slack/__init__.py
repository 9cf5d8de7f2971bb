"""Slack, over socket mode or HTTP. In both modes an event is acknowledged when it is durable.

Socket mode needs no public address: it is switched on for the app, with an app-level token of the scope
connections:write. In HTTP mode the app's request URL is /v1/hooks/<agent>/<channel>, and its signing secret is set.

The bot needs the scopes app_mentions:read, chat:write, users:read and files:read; :history and :read of channels,
groups, im and mpim, to find missed messages; and metadata.message:read, to find a post whose outcome is unknown. The
app subscribes to the events app_mention, message.channels, message.groups, message.im and message.mpim.
"""

from holdfast.channels.slack.channel import SlackChannel, make_slack

__all__ = ["SlackChannel", "make_slack"]
