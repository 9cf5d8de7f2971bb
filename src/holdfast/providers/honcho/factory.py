"""The table [agents.NAME.memory.honcho] of holdfast.toml, and the provider it configures.

The vendor's library is imported inside `make_honcho`, because it is an optional extra.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.settings_table import read_key, read_table
from holdfast.memory.provider import Configured, ProviderSetup
from holdfast.providers.honcho.naming import ID, HonchoNames, Strategy

HINTS = {"strategy": f"it must be one of {', '.join(strategy.value for strategy in Strategy)}"}


class HonchoSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    url: str
    workspace: str = "holdfast"
    strategy: Strategy = Strategy.PER_SESSION
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 1
    max_wait_s: Annotated[float, Meta(gt=0, le=86_400)] = 300
    api_key_env: str | None = None
    send_key_over_plain_http: bool = False
    titles: dict[str, str] = field(default_factory=dict)
    peer_prefix: str = ""
    peers: dict[str, str] = field(default_factory=dict)
    runtime_peer_prefix: str = ""
    compat: bool = False
    own_sessions: bool = False
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = 20

    def names(self) -> HonchoNames:
        return HonchoNames(
            workspace=self.workspace,
            strategy=self.strategy,
            prefix=self.peer_prefix,
            titles=tuple(sorted(self.titles.items())),
            peers=tuple(sorted(self.peers.items())),
            runtime_prefix=self.runtime_peer_prefix,
            compat=self.compat,
            own_sessions=self.own_sessions,
        )


def make_honcho(setup: ProviderSetup) -> Configured:
    """Raises `ConfigInvalid`. Opens no connection."""
    settings = read_table("honcho", setup.settings, HonchoSettings, HINTS)
    _check_names(settings)
    plain_http = settings.send_key_over_plain_http
    key = read_key("honcho", settings.url, settings.api_key_env, setup.environment, plain_http=plain_http)
    try:
        from holdfast.providers.honcho.provider import HonchoProvider  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        what = f"the client library is not installed ({error.name}); install holdfast[honcho]"
        raise ConfigInvalid(f"honcho: {what}", key="honcho") from error
    provider = HonchoProvider(setup, settings, key)
    return Configured(
        provider, provider.names, every_turns=settings.every_turns, max_wait_ms=round(settings.max_wait_s * 1000)
    )


def _check_names(settings: HonchoSettings) -> None:
    for key, value in (("workspace", settings.workspace), ("peer_prefix", settings.peer_prefix or "-")):
        if not ID.match(value) or len(value) > 64:
            what = "it must be 1 to 64 letters, digits, '_' and '-'"
            raise ConfigInvalid(f"honcho.{key} is {value!r}: {what}", key=key)
    for key, table in (("titles", settings.titles), ("peers", settings.peers)):
        for name, value in table.items():
            if not name or not ID.match(value):
                what = "it must map a name to letters, digits, '_' and '-'"
                raise ConfigInvalid(f"honcho.{key}: {name!r} is {value!r}: {what}", key=key)
    for key in ("peers", "runtime_peer_prefix", "own_sessions"):
        if getattr(settings, key) and not settings.compat:
            raise ConfigInvalid(f"honcho.{key}: it has an effect only with compat = true", key=key)
