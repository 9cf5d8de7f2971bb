"""How many connections fit into the open files that the system allows this process."""

from dataclasses import replace

from holdfast.api.limits.server_limits import ServerLimits
from holdfast.kernel import log

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

FILES_FOR_OTHERS = 200  # the store, its log, connections to models and platforms, and connections not yet cut off


def fitted(limits: ServerLimits) -> ServerLimits:
    """The limits, with as many connections as fit. A process may raise its own limit up to the system's."""
    wanted = limits.connections_max
    allowed = _allowed(wanted + FILES_FOR_OTHERS)
    if allowed is None:
        return limits
    log.warning("http.limited", allowed=allowed, needed=wanted + FILES_FOR_OTHERS)
    held = max(2, allowed - FILES_FOR_OTHERS)
    return replace(limits, connections_max=held, operator_connections=min(limits.operator_connections, held // 2))


def _allowed(needed: int) -> int | None:
    """How many files this process may open, if those are fewer than needed."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    raised = needed if hard == resource.RLIM_INFINITY else max(soft, min(hard, needed))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised if raised < needed else None
