"""Naming: the provider-side place of a turn, as a pure function of the inputs at the time of the turn.

Rule 1: the inputs are stored with the turn, so a name never depends on later events (D18).
Rule 2: inputs that must stay separate never get equal names (R17).
"""

from dataclasses import dataclass
from typing import Protocol

from holdfast.kernel.ids import AgentName, Principal, SessionId


@dataclass(frozen=True, slots=True)
class CallerDirectory:
    """The working directory of a message's sender: absolute paths, or empty without one."""

    directory: str = ""
    repo: str = ""  # the repository that contains the directory


NOWHERE = CallerDirectory()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamingInputs:
    """All inputs of a name, as of the commit of the turn."""

    agent: AgentName
    session: SessionId
    principal: Principal
    address: str = ""  # the mailbox's first address; empty for writers without a mailbox
    parent: SessionId | None = None
    title: str | None = None
    directory: str = ""  # the sender's working directory, if a terminal or a program sent it
    repo: str = ""


class Naming(Protocol):
    """The naming of one configured provider. Implementations are frozen values with value equality."""

    def place(self, inputs: NamingInputs) -> str:
        """The lane of a conversation's turns: the provider-side object whose order is visible (D17)."""
        ...

    def memory_place(self, agent: AgentName, subject: str) -> str:
        """The lane of an agent's notes about one subject, which is empty for the agent itself."""
        ...


@dataclass(frozen=True, slots=True)
class PerSession:
    """One place per session, for providers that separate sessions and show no names."""

    def place(self, inputs: NamingInputs) -> str:
        return inputs.session

    def memory_place(self, agent: AgentName, subject: str) -> str:
        return f"memory:{agent}:{subject}"


@dataclass(frozen=True, slots=True)
class PerAddress(PerSession):
    """One place per chat across its sessions (R18); one per session for writers without a mailbox."""

    def place(self, inputs: NamingInputs) -> str:
        return inputs.address or inputs.session
