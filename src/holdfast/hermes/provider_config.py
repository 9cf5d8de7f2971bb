"""The Hindsight and Honcho settings of a home of Hermes, as tables of Holdfast.

The settings are read at every start of the process beside Hermes, from the places where Hermes' own plugins read them,
so they are changed in one place. Secrets are handed on as environment variables and written nowhere.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from holdfast.hermes.filing import OWNER
from holdfast.hermes.home import HermesHome
from holdfast.kernel.errors import ConfigInvalid

HINDSIGHT_URL, HONCHO_URL = "https://api.hindsight.vectorize.io", "https://api.honcho.dev"
HINDSIGHT_KEY, HONCHO_KEY = "HOLDFAST_HERMES_HINDSIGHT_KEY", "HOLDFAST_HERMES_HONCHO_KEY"
CLIENTS = {"hindsight": "hindsight_client", "honcho": "honcho"}
LOCAL_MODES = frozenset({"local", "local_embedded"})
GATEWAYS = ("telegram", "discord", "slack", "whatsapp", "signal", "matrix", "email", "sms", "terminal")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_KNOWN = frozenset({"profile", "platform", "user", "session"})
_NOT_OF_A_LITERAL = re.compile(r"[^A-Za-z0-9._:{}-]")
_NOT_OF_AN_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class HermesMemory:
    """The providers that Hermes has settings for. `left_out` says why one of them cannot be used."""

    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    left_out: tuple[str, ...] = ()


def read_memory(home: HermesHome, variables: Mapping[str, str], user_home: Path) -> HermesMemory:
    """Raises `ConfigInvalid` for a file that is not JSON."""
    environment = {**variables, **read_env(home.path / ".env")}
    tables: dict[str, Mapping[str, object]] = {"local": {}}
    secrets: dict[str, str] = {}
    left_out: list[str] = []
    hindsight = _first(home.path / "hindsight" / "config.json", user_home / ".hindsight" / "config.json")
    _hindsight(hindsight, environment, tables, secrets, left_out)
    honcho = _first(home.path / "honcho.json", user_home / ".hermes" / "honcho.json", user_home / ".honcho/config.json")
    _honcho(honcho, environment, tables, secrets)
    return HermesMemory(tables, secrets, tuple(left_out))


def check_clients(memory: HermesMemory) -> None:
    """Raises `ConfigInvalid` if the client library of a provider is not installed."""
    for name, library in CLIENTS.items():
        if name in memory.tables and find_spec(library) is None:
            what = f"the client library is not installed ({library}); install holdfast[{name}]"
            raise ConfigInvalid(f"{name}: {what}", key=name)


def _hindsight(
    found: Mapping[str, object] | None,
    environment: Mapping[str, str],
    tables: dict[str, Mapping[str, object]],
    secrets: dict[str, str],
    left_out: list[str],
) -> None:
    read = found or {}
    mode = str(read.get("mode") or environment.get("HINDSIGHT_MODE") or "cloud")
    key = str(read.get("api_key") or read.get("apiKey") or environment.get("HINDSIGHT_API_KEY") or "")
    url = str(read.get("api_url") or environment.get("HINDSIGHT_API_URL") or "")
    if found is None and not key and not url:
        return
    if mode in LOCAL_MODES:
        left_out.append("hindsight: the embedded mode runs inside Hermes; use mode local_external and its api_url")
        return
    banks = read.get("banks")
    legacy = banks.get("hermes") if isinstance(banks, dict) else None
    bank = str(read.get("bank_id") or (legacy or {}).get("bankId") or environment.get("HINDSIGHT_BANK_ID") or "hermes")
    table: dict[str, object] = {
        "url": url or ("http://localhost:8888" if mode == "local_external" else HINDSIGHT_URL),
        "bank": bank_template(str(read.get("bank_id_template") or ""), bank),
    }
    if read.get("recall_budget") in ("low", "mid", "high"):
        table["recall_budget"] = read["recall_budget"]
    _with_key(table, secrets, HINDSIGHT_KEY, key)
    tables["hindsight"] = table


def bank_template(template: str, bank: str) -> str:
    """Hermes' template in our words. A placeholder that we do not have is replaced by its only value."""
    chosen = template or bank
    written = _PLACEHOLDER.sub(lambda found: found[0] if found[1] in _KNOWN else "hermes", chosen)
    return _NOT_OF_A_LITERAL.sub("-", written)


def _honcho(
    found: Mapping[str, object] | None,
    environment: Mapping[str, str],
    tables: dict[str, Mapping[str, object]],
    secrets: dict[str, str],
) -> None:
    read = {**(found or {}), **_host_block(found or {}, environment)}
    key = str(read.get("apiKey") or environment.get("HONCHO_API_KEY") or "")
    url = str(read.get("baseUrl") or read.get("base_url") or environment.get("HONCHO_BASE_URL") or "").strip()
    enabled = read.get("enabled")
    if enabled is False or (enabled is None and not key and not url):
        return
    peers = _peers(read)
    table: dict[str, object] = {
        "url": url or HONCHO_URL,
        "workspace": _NOT_OF_AN_ID.sub("-", str(read.get("workspace") or "hermes"))[:64],
        "compat": True,
        "own_sessions": True,
        "peers": peers,
    }
    prefix = read.get("runtimePeerPrefix")
    if prefix:
        table["runtime_peer_prefix"] = str(prefix)
    strategy = str(read.get("sessionStrategy") or "per-directory")
    table["strategy"] = strategy if strategy in ("per-session", "per-repo", "global") else "per-directory"
    _with_key(table, secrets, HONCHO_KEY, key)
    tables["honcho"] = table


def _host_block(read: Mapping[str, object], environment: Mapping[str, str]) -> Mapping[str, object]:
    hosts = read.get("hosts")
    name = environment.get("HERMES_HONCHO_HOST") or str(read.get("defaultHost") or "hermes")
    block = hosts.get(name) if isinstance(hosts, dict) else None
    return block if isinstance(block, dict) else {}


def _peers(read: Mapping[str, object]) -> dict[str, str]:
    """People and agents with a name of their own. Hermes' aliases name an account without its platform."""
    peers: dict[str, str] = {}
    aliases = read.get("userPeerAliases")
    for account, peer in aliases.items() if isinstance(aliases, dict) else ():
        peers |= {f"{platform}:{account}": _peer(peer) for platform in GATEWAYS}
    if read.get("peerName"):
        peers[OWNER] = _peer(read["peerName"])
    if read.get("aiPeer"):
        peers["main"] = _peer(read["aiPeer"])
    return peers


def _peer(name: object) -> str:
    return _NOT_OF_AN_ID.sub("-", str(name))[:512] or "peer"


def _with_key(table: dict[str, object], secrets: dict[str, str], variable: str, key: str) -> None:
    if key:
        table["api_key_env"] = variable
        secrets[variable] = key


def _first(*files: Path) -> Mapping[str, object] | None:
    """The first file that exists. Raises `ConfigInvalid` if it is not a JSON object."""
    for file in files:
        if not file.exists():
            continue
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigInvalid(f"{file} cannot be read as JSON: {type(error).__name__}", key=str(file)) from error
        if not isinstance(read, dict):
            raise ConfigInvalid(f"{file} is not a JSON object", key=str(file))
        return read
    return None


def read_env(file: Path) -> dict[str, str]:
    """The variables of Hermes' .env file: `NAME=value`, with optional quotes. A missing file has none."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, mark, value = line.removeprefix("export ").partition("=")
        if mark and not name.lstrip().startswith("#"):
            plain = value.strip()
            quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'"
            found[name.strip()] = plain[1:-1] if quoted else plain
    return found
