"""Health: the store, the processes, channels, tool servers and models, each with since when and why."""

from collections.abc import Sequence

from holdfast.console.page import Asked, PageView, page
from holdfast.console.providers import ProviderNow, provider_names, provider_now
from holdfast.inbox.channel_status import ComponentKind


@page("/console/health")
async def get_health(asked: Asked) -> PageView:
    """The state of every part."""
    runtime = asked.runtime
    health = await runtime.health()
    channels, servers = runtime.channel_registry.statuses(), runtime.tool_servers()
    components = runtime.components()
    down = sum(one.is_down for one in components)
    providers = [provider_now(asked, name) for name in provider_names(asked, {})]
    told = [
        ("bad", "" if health.ok else f"The store does not take writes ({health.code})"),
        ("bad", f"{down} of {len(components)} parts down" if down else ""),
        ("bad", _named(providers, "stuck")),
        ("hot", _named(providers, "away")),
    ]
    return PageView(
        "health.html",
        "Health",
        {
            "first": [one for one in told if one[1]] or [("", "Everything works")],
            "health": health,
            "channels": channels,
            "servers": servers,
            "providers": providers,
            "models": [one for one in components if one.kind is ComponentKind.MODEL],
            "memories": [one for one in components if one.kind is ComponentKind.MEMORY],
        },
    )


def _named(providers: Sequence[ProviderNow], state: str) -> str:
    names = [one.name for one in providers if one.state == state]
    return f"{', '.join(names)} {state}" if names else ""
