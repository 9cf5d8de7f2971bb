"""Slack, over socket mode: no public address is needed, and an event is acknowledged when it is durable."""

from holdfast.channels.slack.channel import SlackChannel, make_slack

__all__ = ["SlackChannel", "make_slack"]
