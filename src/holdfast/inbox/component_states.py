"""The states of components of one kind, as their newest uses showed them. In the memory of one process.

Rule 1: a failure that the content of a request caused says nothing about the component, which answered. It is kept as
        the newest failure and does not change the state.
Rule 2: a component that was not used yet is in no state: nothing is asked only to learn it.
Rule 3: a success is noted at once if it changes the state, and otherwise every ten seconds: until `well_until` a caller
        need not report further ones.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.inbox.channel_status import ComponentKind, ComponentStatus, ConnectionState, answered
from holdfast.kernel.ids import AgentName, Instant
from holdfast.kernel.ports import Clock
from holdfast.kernel.vendor_error import VendorError

KEPT_MAX = 1_000  # components; without a configuration every name is an agent
NOTE_EVERY_MS = 10_000


class ComponentStates:
    def __init__(self, clock: Clock, kind: ComponentKind) -> None:
        self._clock = clock
        self._kind = kind
        self._found: dict[tuple[str, str], ComponentStatus] = {}
        self.well_until: dict[tuple[str, str], Instant] = {}  # by agent and name
        self.hear: Callable[[], None] = lambda: None  # called after a change; must be quick and must not raise

    def expect(self, wanted: Iterable[tuple[AgentName, str]]) -> None:
        """List the components of the configuration, also before they are used. What it no longer has is gone."""
        keys = dict.fromkeys(wanted)
        self._found = {key: status for key, status in self._found.items() if key in keys}
        for agent, name in keys:
            self._find(agent, name)

    def statuses(self) -> Sequence[ComponentStatus]:
        return tuple(self._found.values())

    def succeeded(self, agent: AgentName, name: str) -> None:
        now, before = self._clock.now(), self._find(agent, name)
        since = before.since if before.state is ConnectionState.UP else now
        up = replace(
            before, state=ConnectionState.UP, since=since, reason="", attempts=0, succeeded_at=now, retry_at=None
        )
        self.well_until[agent, name] = Instant(now + NOTE_EVERY_MS)
        self._keep(up)

    def failed(
        self,
        agent: AgentName,
        name: str,
        reason: str,
        vendor: VendorError,
        *,
        is_own: bool = True,
        retry_at: Instant | None = None,
    ) -> None:
        """`is_own` is false if the content of the request caused it. `retry_at` ends the wait of a circuit breaker."""
        now, before = self._clock.now(), self._find(agent, name)
        said: dict[str, Any] = {"failed_at": now, **answered(vendor)}
        if is_own:
            said |= {
                "state": ConnectionState.DOWN,
                "since": before.since if before.is_down else now,
                "reason": vendor.added_to(reason),
                "attempts": before.attempts + 1,
                "retry_at": retry_at,
            }
            self.well_until.pop((agent, name), None)
        self._keep(replace(before, **said))

    def _find(self, agent: AgentName, name: str) -> ComponentStatus:
        key = (agent, name)
        if key not in self._found:
            while len(self._found) >= KEPT_MAX:
                gone = next(iter(self._found))
                del self._found[gone]
                self.well_until.pop(gone, None)
            self._found[key] = ComponentStatus(kind=self._kind, agent=agent, name=name, since=self._clock.now())
        return self._found[key]

    def _keep(self, status: ComponentStatus) -> None:
        self._found[status.agent, status.name] = status
        self.hear()
