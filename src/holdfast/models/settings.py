"""An agent's model table, checked without network, files or environment, and what an answer of its models costs.

    [agents.main.model]
    name = "openai:gpt-5.2"                # vendor:model; "practice" is the offline one
    fallbacks = ["anthropic:claude-sonnet-5-5"]
    summariser = "openai:gpt-6-luna"

Rule 1: an unknown key is refused with the list of known keys; an error names the key, its value and the remedy.
Rule 2: the table names a vendor's key (by environment variable or file) and never contains it.
Rule 3: `base_url`, `api_key_env`, `api_key_file` and the prices belong to `name`. A fallback or a summariser of the
        same vendor shares the URL and the key; one of another vendor uses that vendor's own.
Rule 4: a cost is in millionths of a dollar, rounded up, by the price table that genai-prices ships. If the vendor
        reports no token counts they are estimated, so that a spending limit still holds.
"""

import math
import re
from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import check_url, read_table, shown, suggestion
from holdfast.models.vendors import VENDORS

PRACTICE = "practice"
FALLBACKS_MAX = 8
MILLION = 1_000_000
Price = Annotated[float, Meta(ge=0, le=1_000_000)]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
MODEL_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,199}\Z", re.ASCII)


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    send_key_over_plain_http: bool = False  # to base_url
    fallbacks: tuple[str, ...] = ()
    summariser: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    first_token_wait_s: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    input_usd_per_million: Price | None = None
    output_usd_per_million: Price | None = None

    @property
    def vendor(self) -> str:
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        return self.name.partition(":")[2]

    @property
    def is_practice(self) -> bool:
        return self.name == PRACTICE

    def of(self, name: str) -> "ModelSettings":
        """The settings of a fallback or a summariser (rule 3)."""
        other = replace(self, name=name, fallbacks=(), summariser=None)
        if name == self.name:
            return other
        other = replace(other, input_usd_per_million=None, output_usd_per_million=None)
        if other.vendor == self.vendor:
            return other
        return replace(other, base_url=None, api_key_env=None, api_key_file=None)


def parse_settings(table: Mapping[str, object], where: str = "model", named: Collection[str] = ()) -> ModelSettings:
    """The table as settings. `named` are tables of other models that `fallbacks` and `summariser` may refer to.

    Raises `ConfigInvalid`, also for an empty table, which names no model.
    """
    if "name" not in table:
        what = 'write the vendor and the model, as in "openai:gpt-5.2"'
        raise ConfigInvalid(f"{where}.name is missing; {what}", key="name")
    settings = read_table(where, table, ModelSettings)
    _check(settings, where, named)
    return settings


def _check(settings: ModelSettings, where: str, named: Collection[str]) -> None:
    _check_name(settings.name, f"{where}.name")
    for n, name in enumerate(settings.fallbacks):
        if name not in named:
            _check_name(name, f"{where}.fallbacks[{n}]")
    if settings.summariser is not None and settings.summariser not in named:
        _check_name(settings.summariser, f"{where}.summariser")
    fault = _fault_of_order((settings.name, *settings.fallbacks))
    if fault:
        raise ConfigInvalid(f"{where}.fallbacks is {shown(list(settings.fallbacks))}: {fault}", key="fallbacks")
    _check_address(settings, where)
    _check_key(settings, where)
    if (settings.input_usd_per_million is None) != (settings.output_usd_per_million is None):
        what = "set both input_usd_per_million and output_usd_per_million, or neither"
        raise ConfigInvalid(f"{where}: {what}", key="input_usd_per_million")


def _fault_of_order(names: tuple[str, ...]) -> str:
    twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
    if twice is not None:
        return f"{twice} would be asked twice; name it once"
    if PRACTICE in names[:-1]:
        return "practice always answers, so name it last"
    return f"at most {FALLBACKS_MAX} are allowed" if len(names) > FALLBACKS_MAX + 1 else ""


def _check_name(name: str, where: str) -> None:
    if name == PRACTICE:
        return
    vendor, colon, model = name.partition(":")
    key = where.rpartition(".")[2]
    if not colon or not MODEL_NAME.match(model):
        what = 'write the vendor, a colon and the model, as in "openai:gpt-5.2", or "practice"'
        raise ConfigInvalid(f"{where} is {shown(name)}: {what}", key=key)
    if vendor not in VENDORS:
        meant = suggestion(vendor, tuple(VENDORS), "vendors")
        raise ConfigInvalid(f"{where} is {shown(name)}: {vendor!r} is not a vendor; {meant}", key=key)


def _check_address(settings: ModelSettings, where: str) -> None:
    url, place = settings.base_url, f"{where}.base_url"
    if url is None:
        return
    check_url(place, url, key="base_url", instead="api_key_env")
    if not settings.is_practice and not VENDORS[settings.vendor].has_address:
        what = f"{settings.vendor} has a fixed URL; remove this setting"
        raise ConfigInvalid(f"{place} is {shown(url)}: {what}", key="base_url")


def _check_key(settings: ModelSettings, where: str) -> None:
    if settings.api_key_env is not None and settings.api_key_file is not None:
        raise ConfigInvalid(f"{where}: set api_key_env or api_key_file, not both", key="api_key_file")
    if settings.api_key_env is not None and not _VARIABLE.match(settings.api_key_env):
        what = "it must be the name of an environment variable, not the key itself"
        raise ConfigInvalid(f"{where}.api_key_env: {what}", key="api_key_env")
    if settings.api_key_file == "":
        raise ConfigInvalid(f"{where}.api_key_file is '': name the file that holds the key", key="api_key_file")


# --- prices ---------------------------------------------------------------------------------------


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
