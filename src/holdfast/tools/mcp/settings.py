"""One MCP server's table of holdfast.toml, checked before a program is started or a request is sent.

Rule 1: a server is a `command` (a list, run without a shell) or a `url`, never both.
Rule 2: the table names the environment variables that hold secrets; a program gets these variables, and no others
        except the few that every program needs.
Rule 3: a token leaves this machine only over https, unless `send_key_over_plain_http` allows more.
Rule 4: `confine` selects how a program is isolated from Holdfast's data and processes (confinement.py). A mode that
        this system does not support is refused; "auto" selects the strongest that works; "none" does not confine.
Rule 5: `user` starts a program as another user. Only root can do that.
"""

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from holdfast.inbox.address import agent_name
from holdfast.kernel.errors import ConfigInvalid, InvalidName
from holdfast.kernel.settings_table import check_key_url, check_url, read_table
from holdfast.tools.mcp.confinement import Confine, Confinement, ModeUnsupported, choose, support_for

TIMEOUT_S, TIMEOUT_S_MAX = 60.0, 3_600.0
NAME_CHARS_SHOWN = 80


class _Table(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    command: list[str] | None = None
    env: list[str] = msgspec.field(default_factory=list)
    url: str | None = None
    token_env: str | None = None
    send_key_over_plain_http: bool = False
    tools: list[str] | None = None
    dangerous: bool | list[str] = False
    idempotent: list[str] = msgspec.field(default_factory=list)
    timeout_s: float = TIMEOUT_S
    confine: Confine = Confine.AUTO
    user: str | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUser:
    name: str
    uid: int
    gid: int
    home: Path | None  # None if no folder belongs to the user


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    server: str
    others: frozenset[str] = frozenset()  # the names of the agent's servers
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    token: str | None = field(default=None, repr=False)
    tools: frozenset[str] | None = None  # None: all of its tools
    dangerous: bool | frozenset[str] = False
    idempotent: frozenset[str] = frozenset()
    timeout_s: float = TIMEOUT_S
    errors_file: Path | None = None  # for a program's stderr; None: Holdfast's own stderr
    confined: Confinement = field(default_factory=Confinement)
    user: ProgramUser | None = None  # None: Holdfast's own user
    folder: Path | None = None  # the working directory of a program; None: its home
    home: Path | None = None  # its own folder; None: a temporary one
    hidden: tuple[Path, ...] = ()  # files that it must not access
    umask: int | None = None  # None: Holdfast's own

    @property
    def confinement(self) -> str:
        """The mode that isolates a program; empty for an HTTP server."""
        return self.confined.mode.value if self.command else ""

    @property
    def identity(self) -> Hashable:
        """Equal for two agents whose servers are the same program with the same arguments and variables, or one URL."""
        variables = frozenset(self.environment.items())
        return self.command, variables, self.folder, self.confined.mode, self.user, self.url, self.token

    def is_wanted(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools

    def is_dangerous(self, tool: str) -> bool:
        return self.dangerous if isinstance(self.dangerous, bool) else tool in self.dangerous


def read_settings(key: str, server: str, table: Mapping[str, object], environment: Mapping[str, str]) -> McpSettings:
    """`key` is the path of the table, for error messages. Raises `ConfigInvalid`."""
    try:
        agent_name(server, what="MCP server")
    except InvalidName as error:
        raise ConfigInvalid(f"{key}: {error}", key=key) from error
    raw = read_table(key, table, _Table)
    _check(key, raw)
    return McpSettings(
        server=server,
        command=tuple(raw.command or ()),
        environment={name: _variable(f"{key}.env", name, environment) for name in raw.env},
        url=raw.url or "",
        token=_variable(f"{key}.token_env", raw.token_env, environment) if raw.token_env is not None else None,
        tools=None if raw.tools is None else frozenset(raw.tools),
        dangerous=raw.dangerous if isinstance(raw.dangerous, bool) else frozenset(raw.dangerous),
        idempotent=frozenset(raw.idempotent),
        timeout_s=raw.timeout_s,
        confined=Confinement() if raw.command is None else _confined(key, raw.confine),
        user=None if raw.user is None else _read_user(key, raw.user),
        folder=_folder(key, raw.folder),
    )


def _confined(key: str, wanted: Confine) -> Confinement:
    try:
        return choose(wanted, support_for(wanted))
    except ModeUnsupported as error:
        fix = 'write "auto" or "none", or run it on another system'
        raise ConfigInvalid(f"{key}.confine is {wanted.value!r}: {error}; {fix}", key=f"{key}.confine") from error


def _folder(key: str, named: str | None) -> Path | None:
    if named is None:
        return None
    try:
        folder = Path(named).expanduser()
    except RuntimeError:  # `~user` of an unknown user
        folder = Path(named)
    if not folder.is_absolute() or not folder.is_dir():
        why = "it must be the absolute path of an existing folder"
        raise ConfigInvalid(f"{key}.folder is {named[:200]!r}: {why}", key=f"{key}.folder")
    return folder


def _check(key: str, raw: _Table) -> None:
    if (raw.command is None) == (raw.url is None):
        raise ConfigInvalid(f"{key} needs either `command` (a list of strings) or `url`", key=key)
    if raw.command is not None and (not raw.command or not raw.command[0] or any("\0" in word for word in raw.command)):
        raise ConfigInvalid(
            f'{key}.command must be a list of strings, as in ["npx", "some-server"]', key=f"{key}.command"
        )
    if raw.url is not None:
        where = f"{key}.url"
        check_url(where, raw.url, key=where, instead="token_env")
        allowed = raw.token_env is None or raw.send_key_over_plain_http
        check_key_url(where, raw.url, key=where, allowed=allowed)
    if raw.command is None and (raw.folder or raw.user or raw.confine is not Confine.AUTO):
        raise ConfigInvalid(f"{key}: `folder`, `user` and `confine` are for servers with a `command`", key=key)
    if raw.url is None and raw.token_env is not None:
        raise ConfigInvalid(f"{key}.token_env is for servers with a `url`; use `env` for a `command`", key=key)
    if not 0 < raw.timeout_s <= TIMEOUT_S_MAX:
        why = f"it must be more than 0 and at most {TIMEOUT_S_MAX:g}"
        raise ConfigInvalid(f"{key}.timeout_s is {raw.timeout_s:g}: {why}", key=f"{key}.timeout_s")


def _variable(key: str, name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "").strip()
    if not name.isidentifier() or not value:
        raise ConfigInvalid(f"{key}: the environment has no {name[:80]!r}; set it, or remove it here", key=key)
    return value


def _read_user(key: str, name: str) -> ProgramUser:
    """Raises `ConfigInvalid` for an unknown user, for root, and if Holdfast may not change users."""
    where, shown = f"{key}.user", f"{key}.user is {name[:NAME_CHARS_SHOWN]!r}"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        why = "only root may start a program as another user, and Holdfast does not run as root; remove this setting"
        raise ConfigInvalid(f"{shown}: {why}", key=where)
    try:
        import pwd  # noqa: PLC0415 - not on Windows

        found = pwd.getpwnam(name)
    except (ImportError, KeyError, ValueError) as error:
        why = "this system has no such user; create one, as with `useradd --system --create-home`"
        raise ConfigInvalid(f"{shown}: {why}", key=where) from error
    if found.pw_uid == 0:
        raise ConfigInvalid(f"{shown}: root is not allowed; name an unprivileged user", key=where)
    return ProgramUser(name=name, uid=found.pw_uid, gid=found.pw_gid, home=_home(Path(found.pw_dir), found.pw_uid))


def _home(folder: Path, uid: int) -> Path | None:
    try:
        return folder if folder.is_dir() and folder.stat().st_uid == uid else None
    except OSError:
        return None
