"""From a table of holdfast.toml to a provider. The vendor's library is loaded here, where it is first needed."""

from holdfast.kernel.errors import ConfigInvalid
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.honcho.settings import read_settings
from holdfast.providers.settings import check_way, read_key


def make_honcho(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`; reaches no network."""
    settings = read_settings(setup.settings)
    key = read_key("honcho", settings.api_key_env, setup.environment)
    check_way("honcho", settings.url, key, allowed=settings.send_key_over_plain_http)
    try:
        from holdfast.providers.honcho.provider import HonchoProvider  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        what = f"the client library is not installed ({error.name}); install holdfast[honcho]"
        raise ConfigInvalid(f"honcho: {what}", key="honcho") from error
    provider = HonchoProvider(setup, settings, key)
    return Configured(
        provider, provider.names, every_turns=settings.every_turns, max_wait_ms=round(settings.max_wait_s * 1000)
    )
