"""The default model of an agent without a configured one, with a sentence for the operator. `up` and `chat` use it.

The order is: an OpenAI key, an Anthropic key, Ollama on this machine, the practice model. Only the third sends a
request, once and with a short timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from holdfast.kernel.settings_table import fault_of_url, has_credentials
from holdfast.models.settings import MODEL_NAME, PRACTICE, ModelSettings
from holdfast.models.vendors import VENDORS

OLLAMA = "http://127.0.0.1:11434"
PROBE_WAIT_S = 0.4
PROBE_BYTES_MAX = 1_000_000
PREFERRED = ("openai", "anthropic")
CONFIGURE = "To choose another, run `holdfast init` and edit the table [agents.main.model]."
Probe = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class DetectedModel:
    settings: ModelSettings
    sentence: str  # for the operator, at the start


async def detect_model(environment: Mapping[str, str], probe: Probe | None = None) -> DetectedModel:
    """The model for an agent without a configured one."""
    keyed = next((name for name in PREFERRED if environment.get(VENDORS[name].key_env or "", "").strip()), None)
    if keyed is not None and not VENDORS[keyed].lacking:
        vendor = VENDORS[keyed]
        chosen = ModelSettings(name=f"{keyed}:{vendor.default}")
        return DetectedModel(chosen, f"{vendor.key_env} is set, so {chosen.name} answers, and costs money. {CONFIGURE}")
    if keyed is not None:
        vendor = VENDORS[keyed]
        why = f"{vendor.key_env} is set, but {vendor.lacking} is not installed: {vendor.install}"
        return DetectedModel(ModelSettings(name=PRACTICE), f"The practice model answers, offline. {why}.")
    address = ollama_address(environment)
    model = await (probe or ask_ollama)(address) if address and not VENDORS["ollama"].lacking else None
    if model is not None:
        chosen = ModelSettings(name=f"ollama:{model}", base_url=f"{address}/v1")
        return DetectedModel(chosen, f"An Ollama at {address} has {model}, so it answers. {CONFIGURE}")
    how = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, start Ollama, or run `holdfast init`"
    return DetectedModel(ModelSettings(name=PRACTICE), f"The practice model answers, offline. For a real one, {how}.")


def ollama_address(environment: Mapping[str, str]) -> str | None:
    """OLLAMA_HOST as Ollama reads it: host, host:port or URL. None for a URL that must not be requested."""
    value = environment.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not value:
        return OLLAMA
    url = value if "://" in value else f"http://{value}"
    url = url.replace("//0.0.0.0", "//127.0.0.1", 1)  # the address it listens on, not the one to connect to
    if fault_of_url(url) or has_credentials(url):
        return None
    return url if ":" in url.partition("://")[2] else f"{url}:11434"


async def ask_ollama(address: str) -> str | None:
    """The model that Ollama changed last, or None if it does not run or has none."""
    if not await _is_listening(address):
        return None
    import httpx  # noqa: PLC0415 - costs a quarter of a second

    try:
        async with httpx.AsyncClient(timeout=PROBE_WAIT_S, follow_redirects=False, trust_env=False) as client:
            answer = await client.get(f"{address}/api/tags")
    except httpx.HTTPError:
        return None
    return first_model(answer.content) if answer.status_code == httpx.codes.OK else None


async def _is_listening(address: str) -> bool:
    """A cheap first check: on most machines no Ollama listens."""
    parts = urlsplit(address)
    try:
        async with asyncio.timeout(PROBE_WAIT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


class _Model(msgspec.Struct):
    name: str
    modified_at: str = ""


class _Tags(msgspec.Struct):
    models: list[_Model]


def first_model(body: bytes) -> str | None:
    if len(body) > PROBE_BYTES_MAX:
        return None
    try:
        tags = msgspec.json.decode(body, type=_Tags)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    chatty = [model for model in tags.models if "embed" not in model.name and MODEL_NAME.match(model.name)]
    newest = max(chatty, key=lambda model: model.modified_at, default=None)
    return newest.name if newest else None
