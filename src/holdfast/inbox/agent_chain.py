"""The chain of a message: the agents through which it came, the first one first. A message of a person has none.

Rule 1: an agent messages only those whom its `talks_to` lists, by the configuration of now. An answer to somebody who
        asked goes back unlisted.
Rule 2: each agent that sends a message or an answer joins the chain, so it names everybody whose words brought a turn
        about. It is stored with the reply, the inbound message and the turn.
Rule 3: a turn with a chain has only the tools that every agent of the chain has too, and messages only agents that each
        of them may message, or is. So nobody reaches through an agent what that agent could not do itself.
Rule 4: whoever is unknown has no tools and messages nobody: an agent that is no longer configured, or the senders of a
        message of an earlier release.
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

from holdfast.kernel.ids import AgentName

Chain: TypeAlias = tuple[AgentName, ...]
TalksTo: TypeAlias = Callable[[AgentName], Collection[str] | None]  # None for an agent that there is not

NOBODY: Chain = ()
UNKNOWN = AgentName("?")  # no agent can have this name
PRINCIPALS = "agent:"  # how the principal of an agent begins
SEND_MESSAGE = "send_message"


def extended(chain: Chain, agent: AgentName) -> Chain:
    """The chain of what an agent sends in a turn that has this chain."""
    return tuple(dict.fromkeys((*chain, agent)))


def stored(chain: Chain) -> str | None:
    """The chain as a store keeps it; no name has a blank."""
    return " ".join(chain) or None


def loaded(text: str | None) -> Chain:
    return tuple(AgentName(name) for name in (text or "").split())


def chain_of_turn(text: str | None, principal: str) -> Chain:
    """The chain of a turn that is over. Turns of earlier releases have none, though an agent may have begun them."""
    if not text and principal.startswith(PRINCIPALS):
        return (UNKNOWN,)
    return loaded(text)


def reachable(agent: AgentName, chain: Chain, talks_to: TalksTo) -> tuple[AgentName, ...]:
    """Whom an agent may message in a turn with this chain, in the order of its own list."""
    others = [(other, talks_to(other)) for other in chain if other != agent]
    return tuple(
        AgentName(name)
        for name in talks_to(agent) or ()
        if name != agent and all(name == other or name in (theirs or ()) for other, theirs in others)
    )


def described(names: Collection[str]) -> str:
    """What the model is told about the tool `send_message`."""
    return (
        f"Send a message to another agent. You can reach: {', '.join(names)}. It answers later, in a message of its "
        "own; do not wait for it.\n\nSay everything that it needs to know: it does not see this conversation. It can "
        "use only tools that you have too."
    )
