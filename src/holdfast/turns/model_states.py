"""The states of models: what the latest request of each agent to each of its models showed.

Rule 1: a failure that the content of a request caused says nothing about the model, which answered. It is kept as the
        newest failure and does not change the state.
Rule 2: a model that was not asked yet is in no state: nothing is asked only to learn it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.inbox.channel_status import ComponentKind, ComponentStatus, ConnectionState, answered
from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.ports import Clock

OF_REQUEST = frozenset({400, 413, 422})  # statuses that say something about the request
LIMIT = "daily limit"  # in the context of a failure: Holdfast itself refused to ask
KEPT_MAX = 1_000  # models; without a configuration every name is an agent
TELL_EVERY_MS = 10_000  # successes that change nothing else


class ModelStates:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[tuple[str, str], ComponentStatus] = {}
        self._told_at = Instant(0)
        self.hear: Callable[[], None] = lambda: None  # must be quick and must not raise

    def expect(self, models: Iterable[tuple[AgentName, str]]) -> None:
        """List the models of the configuration, also before they are asked. Models that it no longer has are gone."""
        wanted = dict.fromkeys(models)
        self._found = {key: status for key, status in self._found.items() if key in wanted}
        for agent, model in wanted:
            self._find(agent, model)

    def statuses(self) -> Sequence[ComponentStatus]:
        return tuple(self._found.values())

    def succeeded(self, agent: AgentName, model: str) -> None:
        now, before = self._clock.now(), self._find(agent, model)
        is_change = before.state is not ConnectionState.UP
        since = now if is_change else before.since
        state = ConnectionState.UP
        after = replace(before, state=state, since=since, reason="", attempts=0, succeeded_at=now)
        self._keep(after, is_change=is_change)

    def failed(self, agent: AgentName, model: str, error: ModelFailed) -> None:
        now, before = self._clock.now(), self._find(agent, model)
        said: dict[str, Any] = {"failed_at": now, **answered(error.vendor)}
        if not _is_of_model(error):
            self._keep(replace(before, **said), is_change=False)
            return
        since = before.since if before.is_down else now
        reason, attempts = error.vendor.added_to(str(error)), before.attempts + 1
        down = replace(before, state=ConnectionState.DOWN, since=since, reason=reason, attempts=attempts, **said)
        self._keep(down, is_change=True)

    def _find(self, agent: AgentName, model: str) -> ComponentStatus:
        key = (agent, model)
        if key not in self._found:
            while len(self._found) >= KEPT_MAX:
                del self._found[next(iter(self._found))]
            self._found[key] = ComponentStatus(
                kind=ComponentKind.MODEL, agent=agent, name=model, since=self._clock.now()
            )
        return self._found[key]

    def _keep(self, status: ComponentStatus, *, is_change: bool) -> None:
        self._found[status.agent, status.name] = status
        now = self._clock.now()
        if is_change or now - self._told_at >= TELL_EVERY_MS:
            self._told_at = now
            self.hear()


def _is_of_model(error: ModelFailed) -> bool:
    if error.context.get(LIMIT):
        return True
    return error.vendor.status not in OF_REQUEST and error.context.get("elsewhere", True) is not False
