"""Puts a changed configuration into force while the process runs.

Rule 1: the whole file is read and every part of it is made before anything changes. If there is an error, the previous
        configuration stays in force, and the report has all errors.
Rule 2: memory providers, channels and MCP servers of an agent hold connections and cursors; they change at a restart.
        So do the table [server], and the end of an agent: an agent that the file no longer has goes on until then. The
        report names each such setting, also at the next reload.
Rule 3: an agent that the file newly has begins to answer, with its memory providers and MCP servers. Its channels begin
        at a restart.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.config import Config, Reading
from holdfast.config.effective import plain_settings
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.ids import AgentName
from holdfast.models.choose import is_same_model
from holdfast.models.detect import detect_model
from holdfast.runtime.app import make_agents
from holdfast.runtime.inspection import Inspector
from holdfast.runtime.runtime import Runtime
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import AgentPolicy

AT_RESTART = ("memory", "channels", "mcp")
LIVE_IN_MEMORY = "sharing"
SERVER = "server"
Key = tuple[str, str]  # the table of the server or of an agent, and the key in it; empty for the whole table
ALL_AGENTS: Key = ("agents", "")
ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadReport:
    """Keys of holdfast.toml: those in force by this reload, and those that wait for a restart."""

    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    problems: tuple[HoldfastError, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


class Reloader:
    """Knows the configuration in force."""

    def __init__(self, runtime: Runtime, config: Config, folder: Path, environment: Mapping[str, str]) -> None:
        self._runtime = runtime
        self._folder = folder
        self._environment = environment
        self._settings = settings_of(config)
        self._policies: Mapping[str, AgentPolicy] | None = config.agents
        self._message_bytes_max = config.message_bytes_max

    async def reload(self, read: Callable[[], Reading]) -> ReloadReport:
        """Read the configuration and put into force what can be. Errors are returned, never raised."""
        try:
            reading = read()
            found = await Inspector(reading.config, self._folder, self._environment, found=reading.problems).inspect()
            if found.problems:
                return ReloadReport(problems=found.problems)
            return await self._apply(reading.config)
        except HoldfastError as error:
            return ReloadReport(problems=(error, *error.others))

    async def _apply(self, config: Config) -> ReloadReport:
        wanted = settings_of(config)
        changed = {
            key for key in {*wanted, *self._settings} if wanted.get(key, ABSENT) != self._settings.get(key, ABSENT)
        }
        if config.agents is None or self._policies is None:
            waiting = {key for key in changed if key[0] == SERVER}
            return ReloadReport(restart=_named(waiting if config.agents is self._policies else {*waiting, ALL_AGENTS}))
        new = {f"agents.{name}" for name in config.agents if name not in self._policies}
        waiting = {key for key in changed if self._waits(key, config.agents, new)}
        policies = self._merged(config.agents)
        made = await self._made(policies)
        rekeyed = self._rekeyed(made)
        await self._runtime.adopt(made)
        self._policies = policies
        for key in changed - waiting:
            self._settings.pop(key, None)
            self._settings |= {key: wanted[key]} if key in wanted else {}
        applied = {(owner, "") if owner in new else (owner, key) for owner, key in changed - waiting}
        return ReloadReport(applied=_named(applied | rekeyed), restart=_named(waiting | self._too_long(config)))

    def _merged(self, wanted: Mapping[str, AgentPolicy]) -> dict[str, AgentPolicy]:
        """The policies for now: what needs a restart is as before (rule 2)."""
        before = self._policies or {}
        kept = {
            name: replace(one, **{part: getattr(before[name], part) for part in AT_RESTART}) if name in before else one
            for name, one in wanted.items()
        }
        return {**before, **kept}

    async def _made(self, policies: Mapping[str, AgentPolicy]) -> Agents:
        """The agents, with the models of before where nothing about them changed."""
        found = await detect_model(self._environment)
        made = make_agents(listed=policies, found=found.settings)
        return Agents(None, {name: self._with_known_models(name, one) for name, one in made.listed.items()})

    def _with_known_models(self, name: AgentName, agent: Agent) -> Agent:
        before = self._runtime.serving.listed.get(name)
        if before is None or not _has_same_models(before, agent):
            return agent
        return replace(agent, model=before.model, summariser=before.summariser)

    def _rekeyed(self, made: Agents) -> set[Key]:
        """The models that changed although the file did not: the key in their file is another one."""
        before = self._runtime.serving.listed
        return {
            (f"agents.{name}", "model")
            for name, agent in made.listed.items()
            if name in before
            and agent.policy.model == before[name].policy.model
            and agent.policy.models == before[name].policy.models
            and not _has_same_models(before[name], agent)
        }

    def _waits(self, key: Key, agents: Mapping[str, AgentPolicy], new: Collection[str]) -> bool:
        """Whether a change of this setting needs a restart."""
        owner, inner = key
        if owner == SERVER or owner.removeprefix("agents.") not in agents:
            return True
        part, _, rest = inner.partition(".")
        return part == "channels" or (owner not in new and part in AT_RESTART and rest != LIVE_IN_MEMORY)

    def _too_long(self, config: Config) -> set[Key]:
        """The HTTP server was made for the longest message of the configuration at the start."""
        return {
            (f"agents.{name}", "limits.message_bytes")
            for name, policy in (config.agents or {}).items()
            if policy.limits.message_bytes_max > self._message_bytes_max
        }


def settings_of(config: Config) -> dict[Key, object]:
    """Every setting, with the text of instructions and the models that an agent calls by name."""
    found: dict[Key, object] = {(owner, key): value for owner, key, value in plain_settings(config)}
    for name, policy in (config.agents or {}).items():
        owner = f"agents.{name}"
        found |= {(owner, ""): True, (owner, "instructions"): policy.instructions}
        found |= {(owner, f"model.{other}"): dict(table) for other, table in policy.models.items()}
    return found


def _named(keys: Iterable[Key]) -> tuple[str, ...]:
    """Without the settings of an agent that is named as a whole."""
    whole = {owner for owner, key in keys if not key}
    return tuple(sorted({owner if owner in whole else f"{owner}.{key}" for owner, key in keys}))


def _has_same_models(one: Agent, other: Agent) -> bool:
    return is_same_model(one.model, other.model) and is_same_model(one.summariser, other.summariser)
