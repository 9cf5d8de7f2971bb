"""Telegram, through aiogram. The library is loaded when the channel first runs: that takes a while."""

from holdfast.channels.telegram.factory import make_telegram

__all__ = ["make_telegram"]
