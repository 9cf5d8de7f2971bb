"""Telegram, through aiogram. The library is loaded when the channel first runs: it takes seconds."""

from holdfast.channels.telegram.factory import make_telegram

__all__ = ["make_telegram"]
