"""Naming: which place on the provider's side a turn belongs to. Pure functions of what was known when it was said.

Rule 1: the inputs are stored with the turn, so a name never depends on what happened since (D18).
Rule 2: two different inputs that must stay apart never get equal names (R17).
"""

from dataclasses import dataclass
from typing import Protocol

from holdfast.kernel.ids import AgentName, Principal, SessionId


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a message was written: whole paths, or nothing where the sender has no directory."""

    directory: str = ""
    repo: str = ""  # the folder of the repository that the directory is in


NOWHERE = Whereabouts()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamingInputs:
    """Everything that a name may be made of, as it was when the turn was committed."""

    agent: AgentName
    session: SessionId
    principal: Principal
    address: str = ""  # the mailbox's first address; empty for writers without a mailbox
    parent: SessionId | None = None
    title: str | None = None
    directory: str = ""  # where the message was written, if its sender said so: a terminal or a program
    repo: str = ""


class Naming(Protocol):
    """How one configured provider names its places. Implementations are frozen values with value equality."""

    def place(self, inputs: NamingInputs) -> str:
        """The lane of a conversation's turns: the provider-side thing whose order people see (D17)."""
        ...

    def memory_place(self, agent: AgentName, subject: str) -> str:
        """The lane of an agent's memory operations (about one subject, empty for the agent itself)."""
        ...


@dataclass(frozen=True, slots=True)
class PerSession:
    """One place per session: for providers that keep sessions apart and do not show names."""

    def place(self, inputs: NamingInputs) -> str:
        return inputs.session

    def memory_place(self, agent: AgentName, subject: str) -> str:
        return f"memory:{agent}:{subject}"


@dataclass(frozen=True, slots=True)
class PerAddress:
    """One place per chat, whatever session is live in it (R18); per session for writers without a mailbox."""

    def place(self, inputs: NamingInputs) -> str:
        return inputs.address or inputs.session

    def memory_place(self, agent: AgentName, subject: str) -> str:
        return f"memory:{agent}:{subject}"
