"""Agents that message each other, through the real tool `send_message` and the real channel between agents.

A text names a route: `use write moss reed` makes the agent message moss and asks moss to message reed. `always` never
ends: two agents message each other until the hop count stops them. `with pay` asks the last one to use a tool.

In some histories agents may not message all others, and some lack a tool.
"""

import json
import random
import re
from collections.abc import Hashable, Mapping, Sequence

from holdfast.inbox import agent_chain
from holdfast.inbox.agent_chain import Chain
from holdfast.kernel.ids import AgentName
from holdfast.testing.workload import CHATS, HORIZON_MS, SENDERS, Say, mark_of, marks_in
from holdfast.tools.send_message import NAME, make_send_tool
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.context import ModelMessage
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import ToolContext, ToolOutcome, Tools, built_in, no_such_tool

HOPS_MAX = 3
UNATTENDED_MAX = 8  # more than the hop limit allows in one mailbox, so that the hop limit ends a cycle
FIRST_AGENT_REQUEST = 400  # the first number of texts that make agents message each other
AGENT_REQUESTS_MAX = 3
ROUTE = re.compile(r" use write ([a-z ]+)\Z")
ALWAYS, WITH = "always", "with"
AGENTS = ("fern", "moss", "reed")
USED = ("look", "pay")  # the tools that these messages ask for
LISTED, HAS = 0.75, 0.6  # shares of the other agents and of these tools, where agents differ


def talks_to(seed: int | str) -> Mapping[str, tuple[str, ...]]:
    """The agents that each agent may message."""
    rng = random.Random(f"{seed}/area/agents/lists")
    share = 1 if rng.random() < 0.4 else LISTED
    return {name: tuple(other for other in AGENTS if other != name and rng.random() < share) for name in AGENTS}


def lacks(seed: int | str) -> Mapping[str, frozenset[str]]:
    """The tools that each agent does not have."""
    rng = random.Random(f"{seed}/area/agents/tools")
    share = 1 if rng.random() < 0.3 else HAS
    return {name: frozenset(tool for tool in USED if rng.random() >= share) for name in AGENTS}


def agent_requests(seed: int | str) -> list[Say]:
    """Texts of people that make agents message each other."""
    rng = random.Random(f"{seed}/area/agents/said")
    said = []
    for n in range(FIRST_AGENT_REQUEST, FIRST_AGENT_REQUEST + 1 + rng.randrange(AGENT_REQUESTS_MAX)):
        chat = rng.choice([chat for chat in CHATS if chat.type == "dm"])
        others = rng.sample([name for name in AGENTS if name != chat.agent], rng.choice((1, 2)))
        route = [others[0], chat.agent, ALWAYS] if rng.random() < 0.5 else others
        route += [WITH, rng.choice(USED)] if route[-1] != ALWAYS and rng.random() < 0.8 else []
        said.append(
            Say(
                n=n,
                at_ms=rng.randrange(HORIZON_MS),
                chat=chat,
                sender=SENDERS[chat.name][0],
                text=f"{mark_of(n)} use write {' '.join(route)}",
                addressed=True,
                human=True,
                conflicts=False,
            )
        )
    return said


def message_in(messages: Sequence[ModelMessage], *, gossips: bool = False) -> str | None:
    """The arguments of the call that the newest text requests, unless it was already made. With `gossips`, the message
    repeats the marks of that text."""
    last = max((n for n, one in enumerate(messages) if one.role == "user" and not one.data), default=-1)
    if last < 0 or any(message.role == "tool" for message in messages[last:]):
        return None
    found = ROUTE.search(messages[last].content)
    if found is None:
        return None
    to, *rest = found[1].split()
    onward = [rest[0], to, ALWAYS] if rest[-1:] == [ALWAYS] else rest
    text = f"please use write {' '.join(onward)}" if onward else "please think about it"
    if onward[:1] == [WITH]:
        text = f"please use {onward[1]}"
    marks = marks_in(messages[last].content) if gossips else []
    return json.dumps({"to": to, "text": " ".join([*marks, text])})


def message_call(id_: str, arguments: str) -> ToolCall:
    return ToolCall(id=id_, name=NAME, arguments=arguments)


class WritingTools:
    """Implements `Tools` and `Traceable`: the agent's tools of every history, and the tool that messages another
    agent."""

    def __init__(self, others: Tools, seed: int | str) -> None:
        lists = talks_to(seed)

        def reach(agent: AgentName, chain: Chain) -> tuple[AgentName, ...]:
            return agent_chain.reachable(agent, chain, lists.get)

        self._others = others
        self._lacks = lacks(seed)
        self._lists = lists
        self._box = ToolBox()
        self._box.add(make_send_tool(reach, hops_max=HOPS_MAX), idempotent=True, origin=built_in(NAME))

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        return tuple(
            spec for spec in (*self._others.specs(agent), *self._box.specs(agent)) if self._has(agent, spec.name)
        )

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        if not self._has(agent, name):
            return None
        return self._box.origin(agent, name) if name == NAME else ("world", name)

    def is_idempotent(self, name: str) -> bool:
        return self._of(name).is_idempotent(name)

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        return self._has(agent, name) and self._of(name).needs_approval(agent, name)

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        if not self._has(context.agent, name):
            return no_such_tool(name, self.specs(context.agent))
        return await self._of(name).call(name, arguments, context)

    def _has(self, agent: AgentName, name: str) -> bool:
        return bool(self._lists.get(agent)) if name == NAME else name not in self._lacks.get(agent, ())

    def _of(self, name: str) -> Tools:
        return self._box if name == NAME else self._others
