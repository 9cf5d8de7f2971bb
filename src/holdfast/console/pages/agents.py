"""Pausing and resuming an agent, as a dialog."""

from holdfast.console.page import Asked, PageView, page
from holdfast.inbox.address import agent_name
from holdfast.monitor.queues import Queue


@page("/console/agents/{agent}/pause")
async def get_pause(asked: Asked) -> PageView:
    """What pausing or resuming an agent would do."""
    agent = asked.runtime.named(agent_name(asked.call.request.path_params["agent"]))
    status = asked.status
    return PageView(
        "pause.html",
        "Pause or resume",
        {
            "agent": agent,
            "paused": next((one for one in status.paused if one.agent == agent), None),
            "waiting": status.queues.messages.get(agent, Queue()).count("waiting"),
            "running": sum(turn.agent == agent for turn in status.running),
        },
    )
