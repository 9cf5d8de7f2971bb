"""Telegram, over the Bot API."""

from holdfast.channels.telegram.channel import TelegramChannel, make_telegram

__all__ = ["TelegramChannel", "make_telegram"]
