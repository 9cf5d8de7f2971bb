"""The chain of a message: the agents it passed through, in order. A person's message has an empty chain.

Rule 1: an agent messages only the agents in its current `talks_to`. It may answer an agent that asked without listing
        it.
Rule 2: each agent that sends a message or an answer joins the chain, so the chain names every agent that contributed to
        a turn. It is stored with the reply, the inbound message and the turn.
Rule 3: a turn with a chain has only the tools that every agent of the chain has, and messages only agents that each of
        them may message, or is. So an agent cannot do through another agent what it could not do itself.
Rule 4: an unknown agent has no tools and messages no agent: one that is no longer configured, or the sender of a
        message of an earlier release.
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

from holdfast.kernel.ids import AgentName

Chain: TypeAlias = tuple[AgentName, ...]
TalksTo: TypeAlias = Callable[[AgentName], Collection[str] | None]  # None for an agent that does not exist

NOBODY: Chain = ()
UNKNOWN = AgentName("?")  # no agent can have this name
PRINCIPALS = "agent:"  # the prefix of an agent's principal
SEND_MESSAGE = "send_message"


def extended(chain: Chain, agent: AgentName) -> Chain:
    """The chain of a message that an agent sends in a turn with this chain."""
    return tuple(dict.fromkeys((*chain, agent)))


def stored(chain: Chain) -> str:
    """The value of the column, which is null for an empty chain; names contain no space."""
    return " ".join(chain)


def loaded(text: str | None) -> Chain:
    return tuple(AgentName(name) for name in (text or "").split())


def chain_of_turn(text: str | None, principal: str) -> Chain:
    """The chain of an ended turn. Turns of earlier releases have none, even if an agent started them."""
    if not text and principal.startswith(PRINCIPALS):
        return (UNKNOWN,)
    return loaded(text)


def reachable(agent: AgentName, chain: Chain, talks_to: TalksTo) -> tuple[AgentName, ...]:
    """The agents that an agent may message in a turn with this chain, in the order of its own list."""
    others = [(other, talks_to(other)) for other in chain if other != agent]
    return tuple(
        AgentName(name)
        for name in talks_to(agent) or ()
        if name != agent and all(name == other or name in (theirs or ()) for other, theirs in others)
    )


def described(names: Collection[str]) -> str:
    """The description of the tool `send_message` for the model."""
    return (
        f"Send a message to another agent. You can reach: {', '.join(names)}. It answers later, in a message of its "
        "own; do not wait for it.\n\nSay everything that it needs to know: it does not see this conversation. It can "
        "use only tools that you have too."
    )
