"""The model port: a request with messages, and a stream of events that ends in one `ModelAnswer`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

from holdfast.kernel.errors import ModelFailed
from holdfast.turns.context import ModelMessage
from holdfast.turns.journal import ToolCall, estimate_tokens
from holdfast.turns.turn import Usage


class ModelTask(Enum):
    REPLY = "reply"
    SUMMARY = "summary"
    EXTRACT = "extract"  # notes to keep from a conversation that has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    name: str
    description: str
    parameters: dict[str, object]  # JSON schema

    @property
    def tokens(self) -> int:
        """The estimated tokens of its description in a request."""
        return estimate_tokens(f"{self.name}{self.description}{self.parameters}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    task: ModelTask
    messages: tuple[ModelMessage, ...]
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class AnswerRestarted:
    """The text streamed so far is void: this model or another one starts again. `failure` gives the reason."""

    failure: ModelFailed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The complete answer, including the text of all deltas."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""  # the model that answered, if it differs from the requested one
    cost_micros: int | None = None  # millionths of a dollar; None for a free model
    asked: str = ""  # the configured model that answered, if it is a fallback of the requested one


ModelEvent: TypeAlias = TextDelta | AnswerRestarted | ModelAnswer


class Model(Protocol):
    @property
    def name(self) -> str: ...

    def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream one answer. Raises `ModelFailed`."""


class Connected(ABC):
    """A model with connections, which the runtime closes. A later request opens new ones."""

    async def load(self) -> None:
        """Load what the first request would load, so that it takes no longer than later ones."""
        return

    @abstractmethod
    async def close(self) -> None: ...
