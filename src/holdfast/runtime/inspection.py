"""Inspection of a configuration: what it would run, and every error in it, without running it.

Every model, memory provider and channel is created as at start, by the same factories, and closed again; creating one
makes no connection. Secrets are looked up; their values are neither kept nor shown.

On request each one is also tested for real, concurrently and with a time limit. A test changes nothing on the server:
it requests the vendor's list of models, a record of the memory provider, or the name of the bot.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from holdfast.config import Config, SecretFact
from holdfast.config.secrets import (
    described,
    equal_tokens,
    located,
    open_mode,
    read_reference,
    references,
    secret_tables,
)
from holdfast.inbox.channel import Channel, Identifiable
from holdfast.kernel.errors import ChannelFailed, ConfigInvalid, HoldfastError, Remedy
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.kernel.ports import Clock, Tasks
from holdfast.memory.provider import Inspectable, Provider
from holdfast.memory.visibility import AGENTS
from holdfast.models.choose import LazyModel, make_models, models_in
from holdfast.models.detect import detect_model
from holdfast.models.settings import parse_settings
from holdfast.runtime.plugins import EMBEDDED, Environment, make_channel, make_provider
from holdfast.runtime.tool_factory import check_talks, silent_notes, wanted_tools
from holdfast.tools.mcp.confinement import Confine
from holdfast.tools.mcp.settings import McpSettings
from holdfast.tools.mcp.settings import read_settings as read_mcp
from holdfast.turns.model import Connected, Model
from holdfast.turns.policy import AgentPolicy

NOT_TRIED = "not tested: it supports no test without side effects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The result of one connection test. `detail` is the server's identity, or the reason for the failure."""

    agent: str
    kind: str  # model, memory or channel
    name: str
    ok: bool
    detail: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Attemptable:
    agent: str
    kind: str
    name: str
    ask: Callable[[], Awaitable[str]]  # returns the identity of the server; raises `HoldfastError`
    close: Callable[[], Awaitable[None]]
    load: Callable[[], Awaitable[None]] | None = None  # loading libraries does not count against the time limit


async def attempt_all(wanted: Sequence[Attemptable], wait_s: float, clock: Clock, tasks: Tasks) -> tuple[Attempt, ...]:
    """Test every component, each for at most `wait_s`; results are in the given order."""
    ended: asyncio.Queue[tuple[int, Attempt]] = asyncio.Queue()

    async def one(n: int) -> None:
        ended.put_nowait((n, await _attempt(wanted[n], wait_s, clock)))

    for n, thing in enumerate(wanted):
        tasks.start(one(n), name=f"connect {thing.name}")
    found = dict([await ended.get() for _ in wanted])
    return tuple(found[n] for n in range(len(wanted)))


async def _attempt(thing: Attemptable, wait_s: float, clock: Clock) -> Attempt:
    began, ok, took_ms = clock.now(), False, 0
    try:
        try:
            if thing.load is not None:
                await thing.load()
                began = clock.now()
            async with asyncio.timeout(wait_s):
                detail = await thing.ask()
            ok = True
        finally:
            took_ms = clock.now() - began
            await thing.close()
    except TimeoutError:
        detail = f"no response within {wait_s:g} s"
    except HoldfastError as error:
        detail = error.reason if isinstance(error, ChannelFailed) else str(error)
    except Exception as error:  # noqa: BLE001 - providers and channels may be third-party code
        ok, detail = False, f"raised {type(error).__name__}"
    return Attempt(agent=thing.agent, kind=thing.kind, name=thing.name, ok=ok, detail=detail, duration_ms=took_ms)


# --- the test of each kind -------------------------------------------------------------------------


class ProviderUnwell(HoldfastError, remedy=Remedy.REPAIR):
    """A memory provider reported that it cannot accept deliveries."""

    hint = "Check the settings of the provider and the server that they name."


async def ask_provider(provider: Provider) -> str:
    why = await (provider.inspect() if isinstance(provider, Inspectable) else provider.healthy())
    if why is not None:
        raise ProviderUnwell(why)
    return "available"


async def ask_channel(channel: Channel) -> str:
    return await channel.identify() if isinstance(channel, Identifiable) else NOT_TRIED


async def ask_model(model: Model) -> str:
    if isinstance(model, LazyModel):
        return await model.inspect()
    return "runs offline"


T = TypeVar("T")
EMBEDDED_DOES = {"local": "search in past conversations", "files": "MEMORY.md and USER.md"}


def check_model(name: str) -> None:
    """Raises `ConfigInvalid` if the name is not that of a vendor and a model."""
    parse_settings({"name": name})


# --- the plan ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """The components of one agent."""

    agent: str
    model: str
    memory: tuple[str, ...]
    channels: tuple[str, ...]
    mcp: tuple[str, ...]
    talks_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    plans: tuple[AgentPlan, ...]
    secrets: tuple[SecretFact, ...]
    problems: tuple[HoldfastError, ...]
    notes: tuple[str, ...] = ()  # warnings about valid settings
    attempts: tuple[Attempt, ...] | None = None  # None if no connections were requested

    @property
    def ok(self) -> bool:
        return not self.problems and all(one.ok for one in self.attempts or ())


class Inspector:
    """Creates every component once and collects the errors.

    With `connect_wait_s`, each component also connects for real, for at most that many seconds.
    """

    def __init__(
        self,
        config: Config,
        data: Path,
        environment: Mapping[str, str],
        connect_wait_s: float | None = None,
        *,
        found: Iterable[HoldfastError] = (),
    ) -> None:
        """`found` are the errors of the file itself, which the configuration was read without."""
        self._config = config
        self._connect_wait_s = connect_wait_s
        self._wanted: list[Attemptable] = []
        self._environment = environment
        self._problems = list(found)
        self._notes: list[str] = []
        self._made_with = Environment(
            clock=SystemClock(),
            entropy=SystemEntropy(),
            tasks=AsyncTasks(),
            folder=data,
            config_folder=config.folder,
            variables=environment,
        )

    async def inspect(self) -> Inspection:
        """Inspect the configuration. Errors in it are returned, never raised."""
        listed = self._config.agents if self._config.agents is not None else {"main": AgentPolicy()}
        for name, table in self._config.models.items():
            self._try(partial(parse_settings, table, f"models.{name}", self._config.models))
        plans = [await self._plan(AgentName(name), policy) for name, policy in listed.items()]
        secrets, attempts = self._secrets(listed), None
        own = [note for name, policy in listed.items() for note in _notes(name, policy)]
        if self._connect_wait_s is not None:
            attempts = await attempt_all(
                self._wanted, self._connect_wait_s, self._made_with.clock, self._made_with.tasks
            )
        return Inspection(
            plans=tuple(plans),
            secrets=secrets,
            problems=tuple({str(one): one for one in self._problems}.values()),
            notes=tuple(dict.fromkeys(map(self._config.origins.placed, (*own, *silent_notes(listed), *self._notes)))),
            attempts=attempts,
        )

    async def _plan(self, agent: AgentName, policy: AgentPolicy) -> AgentPlan:
        self._try(partial(wanted_tools, policy, agent))
        self._try(partial(check_talks, agent, policy, self._config.agents))
        memory = EMBEDDED if policy.memory is None else policy.memory
        for name, settings in memory.items():
            made = self._try(partial(make_provider, agent, name, settings, self._made_with))
            if made is not None and name in EMBEDDED:
                await made.provider.close()  # it is a file in the data folder: there is no connection to test
            elif made is not None:
                made_ask, made_close = partial(ask_provider, made.provider), made.provider.close
                await self._later(Attemptable(agent, "memory", name, made_ask, made_close))
        for name, settings in policy.channels.items():
            channel = self._try(partial(make_channel, agent, name, settings, self._made_with))
            if channel is not None:
                ask, load = partial(ask_channel, channel), getattr(channel, "load", None)
                await self._later(Attemptable(agent, "channel", name, ask, channel.close, load))
        for name, settings in policy.mcp.items():
            self._try(partial(self._mcp, f"agents.{agent}.mcp.{name}", name, settings))
        model = await self._model(agent, policy)
        return AgentPlan(
            agent=agent,
            model=model,
            memory=tuple(memory),
            channels=tuple(policy.channels),
            mcp=tuple(policy.mcp),
            talks_to=tuple(policy.talks_to),
        )

    def _mcp(self, key: str, name: str, settings: Mapping[str, object]) -> None:
        """A program that cannot be found is a server that never comes up. Raises `ConfigInvalid`."""
        read = read_mcp(key, name, settings, self._environment)
        if read.command and shutil.which(read.command[0], path=self._environment.get("PATH")) is None:
            fix = "there is no such program; install it, or write the whole path of it"
            raise ConfigInvalid(f"{key}.command: {read.command[0][:200]!r}: {fix}", key=f"{key}.command")
        self._notes += _program_notes(key, read)

    async def _model(self, agent: AgentName, policy: AgentPolicy) -> str:
        where = f"agents.{agent}.model"
        found = None if policy.model else (await detect_model(self._environment)).settings
        made = self._try(
            partial(make_models, policy, self._environment, self._made_with.tasks, found=found, where=where)
        )
        for model in models_in(made or ()) if self._connect_wait_s is not None else ():
            close, load = (model.close, model.load) if isinstance(model, Connected) else (_nothing, None)
            await self._later(Attemptable(agent, "model", model.name, partial(ask_model, model), close, load))
        if found is not None:
            return f"{found.name} (detected)"
        try:
            settings = parse_settings(policy.model, where, policy.models)
        except ConfigInvalid:  # already among the problems
            return "none"
        return " then ".join((settings.name, *settings.fallbacks))

    async def _later(self, thing: Attemptable) -> None:
        """Keep the component for the connection test, or close it if no test was requested."""
        if self._connect_wait_s is None:
            await thing.close()
        else:
            self._wanted.append(thing)

    def _try(self, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except HoldfastError as error:
            self._problems.append(self._placed(error))
            return None

    def _placed(self, error: HoldfastError) -> HoldfastError:
        """The error with the name of the file and of the table to correct, which a factory does not know."""
        file, said = self._config.file, str(error)
        if file is None or not isinstance(error, ConfigInvalid):
            return error
        said = self._config.origins.placed(said)
        return type(error)(said if said.startswith(str(file)) else f"{file}: {said}", **error.context)

    def _secrets(self, listed: Mapping[str, AgentPolicy]) -> tuple[SecretFact, ...]:
        """Every secret that the configuration refers to. Two bots with the same token are added to the problems."""
        file = self._config.file or Path()
        facts, tokens = dict[str, SecretFact](), dict[str, str]()
        for agent, policy in listed.items():
            for key, how, name in references(secret_tables(policy), f"agents.{agent}"):
                value = read_reference(file, how, name, self._environment)
                place = self._config.origins.of(key)
                facts[place] = SecretFact(key=place, where=described(file, how, name), found=value is not None)
                if how == "file" and value is not None and (mode := open_mode(located(file, name))):
                    what = f"other users may read or change {described(file, how, name)} (mode {mode:04o})"
                    self._notes.append(f"{place}: {what}; run `chmod 600` on it")
                if value is not None and ".channels." in key and key.endswith(("token_env", "token_file")):
                    tokens[key] = value
        self._problems += equal_tokens(file, tokens)
        return tuple(facts.values())


def _notes(agent: str, policy: AgentPolicy) -> Iterator[str]:
    """Warnings about valid settings. Configuring any memory provider replaces the two default ones."""
    if policy.recall.shares_all:
        yield (
            f'agent {agent} has memory.sharing = "agent": every private chat sees all notes and all past messages,'
            " including those of groups; use it only for an agent with a single owner"
        )
    for one in sorted(policy.approval.approvers):
        if one.startswith(AGENTS):
            yield f"agents.{agent}.approval.approvers: {one!r} is an agent, and only people can approve tool calls"
    lost = [name for name in EMBEDDED if policy.memory and name not in policy.memory]
    if lost:
        tables = " and ".join(f"[agents.{agent}.memory.{name}]" for name in lost)
        what = " and ".join(f"{name} ({EMBEDDED_DOES[name]})" for name in lost)
        verb = "is" if len(lost) == 1 else "are"
        named = ", ".join(policy.memory or ())
        yield f"agent {agent} keeps its memories in {named} only: {what} {verb} disabled; to enable, add {tables}"


def _program_notes(key: str, settings: McpSettings) -> Iterator[str]:
    """Warnings about the access of an MCP program to files, and about its command line."""
    note = f" ({settings.confined.note})" if settings.confined.note else ""
    if settings.confined.mode is Confine.NONE:
        user = settings.user
        reach = "everything in the data folder, including tokens" if user is None else f"all files of {user.name}"
        yield f"{key}: the program is not confined: it can read {reach}{note}"
    elif note:
        yield f"{key}: the program is confined by {settings.confinement}: {settings.confined.note}"
    if settings.folder is None and (words := [word for word in settings.command[1:] if _is_relative_file(word)]):
        fix = "use the absolute path, or set `folder`"
        yield f"{key}.command: {words[0][:200]!r} does not exist in the folder that the program is started in; {fix}"


def _is_relative_file(word: str) -> bool:
    path = Path(word)
    try:
        return not path.is_absolute() and path.is_file()
    except (OSError, ValueError):  # too long for a path
        return False


async def _nothing() -> None:
    """Closes a model without a connection."""
