"""An agent's model table, checked without network, files or environment.

    [agents.main.model]
    name = "openai:gpt-5.2"                # vendor:model; "practice" is the offline one
    fallbacks = ["anthropic:claude-sonnet-5-5"]
    summariser = "openai:gpt-6-luna"

Rule 1: an unknown key is refused with the list of known keys; an error names the key, its value and the remedy.
Rule 2: the table names a vendor's key (by environment variable or file) and never contains it.
Rule 3: `base_url`, `api_key_env`, `api_key_file` and the prices belong to `name`. A fallback or a summariser of the
        same vendor shares the URL and the key; one of another vendor uses that vendor's own.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.urls import fault_of_url, has_credentials, wrong_url
from holdfast.models.vendors import VENDORS

PRACTICE = "practice"
FALLBACKS_MAX = 8
Price = Annotated[float, Meta(ge=0, le=1_000_000)]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
MODEL_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,199}\Z", re.ASCII)
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
SECRETS = frozenset({"api_key", "key", "token", "secret", "password"})


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


def parse_settings(table: Mapping[str, object], where: str = "model") -> ModelSettings:
    """The table as settings. Raises `ConfigInvalid`, also for an empty table, which names no model."""
    unknown = next((key for key in table if key not in ModelSettings.__struct_fields__), None)
    if unknown is not None:
        raise _unknown(where, unknown)
    if "name" not in table:
        what = 'write the vendor and the model, as in "openai:gpt-5.2"'
        raise ConfigInvalid(f"{where}.name is missing; {what}", key="name")
    try:
        settings = msgspec.convert(dict(table), ModelSettings, strict=True)
    except msgspec.ValidationError as error:
        raise _translated(where, table, str(error)) from error
    _check(settings, where)
    return settings


def _unknown(where: str, key: str) -> ConfigInvalid:
    if key in SECRETS:
        what = "a secret must not be in the configuration; name its place with api_key_env or api_key_file"
        return ConfigInvalid(f"{where}.{key}: {what}", key=key)
    known = ModelSettings.__struct_fields__
    near = difflib.get_close_matches(key, known, n=1)
    meant = f"; did you mean {near[0]}?" if near else f"; the settings are {', '.join(known)}"
    return ConfigInvalid(f"{where}.{key[:80]} is not a setting{meant}", key=key)


def _translated(where: str, table: Mapping[str, object], message: str) -> ConfigInvalid:
    found = _PLACE.match(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    key = path.partition("[")[0]
    return ConfigInvalid(f"{where}.{path} is {_shown(table.get(key))}: {what}", key=key)


def _shown(value: object) -> str:
    return repr(value)[:80]


def _check(settings: ModelSettings, where: str) -> None:
    _check_name(settings.name, f"{where}.name")
    for n, name in enumerate(settings.fallbacks):
        _check_name(name, f"{where}.fallbacks[{n}]")
    if settings.summariser is not None:
        _check_name(settings.summariser, f"{where}.summariser")
    fault = _fault_of_order((settings.name, *settings.fallbacks))
    if fault:
        raise ConfigInvalid(f"{where}.fallbacks is {_shown(list(settings.fallbacks))}: {fault}", key="fallbacks")
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
        raise ConfigInvalid(f"{where} is {_shown(name)}: {what}", key=key)
    if vendor not in VENDORS:
        near = difflib.get_close_matches(vendor, VENDORS, n=1)
        meant = f"did you mean {near[0]}?" if near else f"the vendors are {', '.join(VENDORS)}"
        raise ConfigInvalid(f"{where} is {_shown(name)}: {vendor!r} is not a vendor; {meant}", key=key)


def _check_address(settings: ModelSettings, where: str) -> None:
    url = settings.base_url
    if url is None:
        return
    if has_credentials(url):
        raise ConfigInvalid(f"{where}.base_url: it must hold no user and no password; use api_key_env", key="base_url")
    fault = fault_of_url(url)
    if not fault and not settings.is_practice and not VENDORS[settings.vendor].has_address:
        fault = f"{settings.vendor} has a fixed URL; remove this setting"
    if fault:
        raise wrong_url(f"{where}.base_url", _shown(url), fault, key="base_url")


def _check_key(settings: ModelSettings, where: str) -> None:
    if settings.api_key_env is not None and settings.api_key_file is not None:
        raise ConfigInvalid(f"{where}: set api_key_env or api_key_file, not both", key="api_key_file")
    if settings.api_key_env is not None and not _VARIABLE.match(settings.api_key_env):
        what = "it must be the name of an environment variable, not the key itself"
        raise ConfigInvalid(f"{where}.api_key_env: {what}", key="api_key_env")
    if settings.api_key_file == "":
        raise ConfigInvalid(f"{where}.api_key_file is '': name the file that holds the key", key="api_key_file")
