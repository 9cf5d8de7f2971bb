"""The table [agents.NAME.memory.hindsight] of holdfast.toml, and the provider it configures.

The vendor's library is imported inside `make_hindsight`: it takes seconds, and is an optional extra.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import read_key, read_table
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.hindsight.naming import BankTemplate


class HindsightSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    url: str
    bank: str = "{agent}"
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    max_wait_s: Annotated[float, Meta(gt=0, le=86_400)] = 300
    api_key_env: str | None = None
    send_key_over_plain_http: bool = False
    recall_budget: Literal["low", "mid", "high"] = "low"
    recall_max_tokens: Annotated[int, Meta(ge=64, le=100_000)] = 2_048
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 20  # per request
    settle_s: Annotated[float, Meta(gt=0, le=600)] = 60  # per delivery, from the request until the document is stored


def make_hindsight(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`. Opens no connection."""
    settings = read_table("hindsight", setup.settings, HindsightSettings)
    plain_http = settings.send_key_over_plain_http
    key = read_key("hindsight", settings.url, settings.api_key_env, setup.environment, plain_http=plain_http)
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
