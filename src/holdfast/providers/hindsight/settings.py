"""The table [agents.NAME.memory.hindsight] of holdfast.toml."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.providers.settings import check_url, read_table


class HindsightSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    url: str
    bank: str = "{agent}"
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    max_wait_s: Annotated[float, Meta(gt=0, le=86_400)] = 300
    api_key_env: str | None = None
    send_key_over_plain_http: bool = False
    recall_budget: Literal["low", "mid", "high"] = "low"
    recall_max_tokens: Annotated[int, Meta(ge=64, le=100_000)] = 2_048
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 20  # one request
    settle_s: Annotated[float, Meta(gt=0, le=600)] = 60  # one delivery, from sending it to knowing that it is kept


def read_settings(table: Mapping[str, object]) -> HindsightSettings:
    """Raises `ConfigInvalid`."""
    settings = read_table("hindsight", table, HindsightSettings)
    check_url("hindsight", settings.url)
    return settings
