"""The number of connections that fit into the open files of this process."""

from msgspec.structs import replace

from holdfast.api.limits.server_limits import ServerLimits
from holdfast.kernel import log

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

FILES_FOR_OTHERS = 200  # the store, its log, connections to models and platforms, and connections not yet closed


def fitted(limits: ServerLimits) -> ServerLimits:
    """The limits, with as many connections as fit. The process raises its own soft limit up to the hard limit."""
    wanted = limits.connections_max
    allowed = _allowed(wanted + FILES_FOR_OTHERS)
    if allowed is None:
        return limits
    log.warning("http.limited", allowed=allowed, needed=wanted + FILES_FOR_OTHERS)
    held = max(2, allowed - FILES_FOR_OTHERS)
    return replace(limits, connections_max=held, operator_connections=min(limits.operator_connections, held // 2))


def _allowed(needed: int) -> int | None:
    """The number of files that this process may open, if it is less than needed."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    raised = needed if hard == resource.RLIM_INFINITY else max(soft, min(hard, needed))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised if raised < needed else None
