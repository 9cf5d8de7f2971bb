"""From a table of holdfast.toml to a provider. The vendor's library is loaded here, where it is first needed."""

from holdfast.kernel.errors import ConfigInvalid
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.hindsight.naming import BankTemplate
from holdfast.providers.hindsight.settings import read_settings
from holdfast.providers.settings import check_way, read_key


def make_hindsight(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`; reaches no network."""
    settings = read_settings(setup.settings)
    key = read_key("hindsight", settings.api_key_env, setup.environment)
    check_way("hindsight", settings.url, key, allowed=settings.send_key_over_plain_http)
    naming = BankTemplate(settings.bank)
    try:
        from holdfast.providers.hindsight.provider import HindsightProvider  # noqa: PLC0415 - seconds of imports
    except ModuleNotFoundError as error:
        what = f"the client library is not installed ({error.name}); install holdfast[hindsight]"
        raise ConfigInvalid(f"hindsight: {what}", key="hindsight") from error
    return Configured(
        HindsightProvider(setup, settings, naming, key),
        naming,
        every_turns=settings.every_turns,
        max_wait_ms=round(settings.max_wait_s * 1000),
    )
