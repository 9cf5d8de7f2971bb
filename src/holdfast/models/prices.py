"""The cost of an answer in millionths of a dollar, rounded up. Offline: genai-prices ships the price table.

If the vendor reports no token counts they are estimated, so that a spending limit still holds.
"""

import math
from collections.abc import Mapping

from holdfast.models.settings import ModelSettings
from holdfast.models.vendors import VENDORS

MILLION = 1_000_000


def has_price(settings: ModelSettings) -> bool:
    """Whether the price of the model is known. A local model costs nothing."""
    return price_micros(settings, {"input_tokens": MILLION, "output_tokens": MILLION}) is not None


def price_micros(settings: ModelSettings, tokens: Mapping[str, int]) -> int | None:
    """`tokens` are counts by genai-prices' names; None if the price is unknown."""
    if settings.input_usd_per_million is not None and settings.output_usd_per_million is not None:
        read, written = tokens.get("input_tokens", 0), tokens.get("output_tokens", 0)
        return math.ceil(read * settings.input_usd_per_million + written * settings.output_usd_per_million)
    if settings.is_practice or not VENDORS[settings.vendor].prices:
        return 0
    return _listed(settings, tokens)


def _listed(settings: ModelSettings, tokens: Mapping[str, int]) -> int | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415 - heavy, and an extra

    def price(counted: Mapping[str, int]) -> int:
        found = calc_price(Usage(**counted), settings.model, provider_id=VENDORS[settings.vendor].prices)
        return math.ceil(found.total_price * MILLION)

    try:
        return price(tokens)
    except LookupError:
        return None
    except ValueError:  # some vendors report more cached tokens than total ones; the answer must not fail over it
        return price(_uncached(tokens))


def _uncached(tokens: Mapping[str, int]) -> Mapping[str, int]:
    """The largest count that such numbers can mean."""
    cached = tokens.get("cache_read_tokens", 0) + tokens.get("cache_write_tokens", 0)
    read, written = max(tokens.get("input_tokens", 0), cached), tokens.get("output_tokens", 0)
    return {"input_tokens": max(0, read), "output_tokens": max(0, written)}
