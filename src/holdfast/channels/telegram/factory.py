"""From a table of holdfast.toml to a channel. Nothing is connected, and aiogram is only looked for, not loaded."""

from importlib.util import find_spec

from holdfast.channels.telegram.channel import TelegramChannel
from holdfast.channels.telegram.settings import read_telegram
from holdfast.inbox.channel import ChannelSetup
from holdfast.kernel.errors import ConfigInvalid


def make_telegram(setup: ChannelSetup) -> TelegramChannel:
    """Raises `ConfigInvalid`; reads the files that hold secrets, and reaches no network."""
    settings = read_telegram(setup)
    if find_spec("aiogram") is None:
        raise ConfigInvalid(f"{setup.name}: aiogram is not installed; install holdfast[telegram]", key=setup.name)
    return TelegramChannel(setup, settings)
