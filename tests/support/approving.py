"""A dangerous tool in a runtime on one channel, for tests of approvals on the platforms."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.inbox.channel import ChannelCapabilities
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import AgentName
from holdfast.turns.policy import AccessPolicy, Door
from tests.support.fakes import Process, ScriptedModel, agents, calls, policy, says

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)


class Till:
    """It takes money, once for each yes."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> Callable[..., Any]:
        async def pay(amount: int = 1) -> str:
            """Pay somebody."""
            self.paid.append(amount)
            return f"paid {amount}"

        pay.dangerous = True  # type: ignore[attr-defined]
        return pay


def hasty(capabilities: ChannelCapabilities) -> ChannelCapabilities:
    """Without the platform's pace."""
    return replace(capabilities, chat_interval_ms=0)


async def start(folder: Path, name: str, channel: Any, till: Till, **more: Any) -> Process:
    """A process whose agent wants to pay as soon as it is spoken to, and then says that it is done."""
    model = ScriptedModel(calls('pay {"amount": 3}'), says("all done"))
    who = agents(model, replace(policy(), access=OPEN, **more), tools=[till.tool()])
    return await Process.start(folder, who, channels=Channels({(AgentName("main"), name): channel}))


def asked_in(texts: Sequence[str]) -> str:
    """The approval that the last text asks for."""
    found = re.search(r"Answer /approve (\w{6}) or /deny \1\.", texts[-1])
    assert found is not None, texts[-1]
    return found[1]
