"""The planted facts: seven kinds with several wordings each, and unique values.

Rule 1: all values come from the entropy port, so a seed always makes the same facts.
Rule 2: values are invented names, five-digit numbers and dates in years that occur nowhere else, so a value is never in
        a context by accident.
Rule 3: a corrected fact is said twice: first with the outdated value, then with the valid one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from holdfast.kernel.ports import Entropy

T = TypeVar("T")


class FactKind(Enum):
    NAME = "name"
    NUMBER = "number"
    DATE = "date"
    PREFERENCE = "preference"
    DECISION = "decision"
    PROMISE = "promise"
    CORRECTION = "correction"


class ValueKind(Enum):
    """The type of a value."""

    NAME = "name"
    NUMBER = "number"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Wording:
    said: str
    question: str
    of: ValueKind = ValueKind.NAME
    first: str = ""  # a correction's first version
    speaker: str = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    kind: FactKind
    speaker: str  # user, assistant
    said: str
    question: str
    value: str
    first: str = ""  # the sentence that said `stale`
    stale: str = ""


WORDINGS: dict[FactKind, tuple[Wording, ...]] = {
    FactKind.NAME: (
        Wording("Our new neighbour {about} has a daughter named {value}.", "What is {about}'s daughter called?"),
        Wording("{value} is what {about} called the boat in the end.", "What did {about} call the boat?"),
        Wording("Our contact at {about} Logistics is {value}.", "Who is our contact at {about} Logistics?"),
        Wording("My cousin {about} married somebody called {value}.", "Whom did my cousin {about} marry?"),
    ),
    FactKind.NUMBER: (
        Wording(
            "The invoice from {about} came to {value} euros.",
            "How much was the invoice from {about}?",
            ValueKind.NUMBER,
        ),
        Wording(
            "The door code at {about} House is {value}.", "What is the door code at {about} House?", ValueKind.NUMBER
        ),
        Wording("{about} ordered {value} bricks.", "How many bricks did {about} order?", ValueKind.NUMBER),
        Wording("My member number at {about} is {value}.", "What is my member number at {about}?", ValueKind.NUMBER),
    ),
    FactKind.DATE: (
        Wording("The lease with {about} ends on {value}.", "When does the lease with {about} end?", ValueKind.DATE),
        Wording("{about} turns forty on {value}.", "When does {about} turn forty?", ValueKind.DATE),
        Wording("We fly to {about} on {value}.", "When do we fly to {about}?", ValueKind.DATE),
        Wording(
            "The warranty of the {about} runs out on {value}.", "When does the {about} warranty end?", ValueKind.DATE
        ),
    ),
    FactKind.PREFERENCE: (
        Wording("For everything about {about} I prefer the {value} font.", "Which font do I prefer for {about}?"),
        Wording("I cannot stand {value}, so keep it out of {about}.", "What must be kept out of {about}?"),
        Wording("When we eat at {about} I always like the {value} best.", "Which dish do I like best at {about}?"),
        Wording("Please never book {value} when {about} travels.", "What may not be booked when {about} travels?"),
    ),
    FactKind.DECISION: (
        Wording("We decided to hold {about} at {value}.", "Where will we hold {about}?"),
        Wording("In the end we settled on {value} as the vendor for {about}.", "Which vendor is it for {about}?"),
        Wording("The team chose {value} to lead {about}.", "Who leads {about}?"),
        Wording("So it is agreed, {about} goes ahead with {value}.", "With what does {about} go ahead?"),
    ),
    FactKind.PROMISE: (
        Wording(
            "I will send you the report on {about} by {value}.",
            "When will you send me the report on {about}?",
            ValueKind.DATE,
            speaker="assistant",
        ),
        Wording("I promise to ask {value} about {about}.", "Whom will you ask about {about}?", speaker="assistant"),
        Wording("I promised {about} that {value} gets the keys.", "Who gets the keys, as promised to {about}?"),
        Wording(
            "I'll remind you of {about} on {value}.",
            "When will you remind me of {about}?",
            ValueKind.DATE,
            "",
            "assistant",
        ),
    ),
    FactKind.CORRECTION: (
        Wording(
            "Correction: the budget for {about} is {value} euros.",
            "What is the budget for {about}?",
            ValueKind.NUMBER,
            "The budget for {about} is {value} euros.",
        ),
        Wording(
            "Actually, the meeting with {about} moved to {value}.",
            "When is the meeting with {about}?",
            ValueKind.DATE,
            "The meeting with {about} is on {value}.",
        ),
        Wording(
            "I got it wrong about the flat of {about}: it is in {value}.",
            "Where is the flat of {about}?",
            first="The flat of {about} is in {value}.",
        ),
        Wording(
            "The code word for {about} has changed, it is {value} now.",
            "What is the code word for {about}?",
            first="The code word for {about} is {value}.",
        ),
    ),
}

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "kl", "tr")
_VOWELS = ("a", "e", "i", "o", "u")
_ENDS = ("l", "n", "r", "s", "x", "th", "k", "m")


class ValueSource:
    """Random values that never repeat."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._used: set[str] = set()

    def below(self, limit: int) -> int:
        return self._entropy.bits(40) % limit

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def value(self, of: ValueKind) -> str:
        make = {ValueKind.NAME: self._name, ValueKind.NUMBER: self._number, ValueKind.DATE: self._date}[of]
        while (value := make()) in self._used:
            pass
        self._used.add(value)
        return value

    def _name(self) -> str:
        syllables = [self.choice(_ONSETS) + self.choice(_VOWELS) for _ in range(3)]
        return ("".join(syllables) + self.choice(_ENDS)).capitalize()

    def _number(self) -> str:
        return str(10_000 + self.below(90_000))

    def _date(self) -> str:
        return f"{1 + self.below(28)} {self.choice(MONTHS)} {2030 + self.below(60)}"


def make_facts(count: int, draw: ValueSource) -> list[Fact]:
    """`count` facts, cycling through the kinds and through the wordings of each kind."""
    kinds = list(FactKind)
    return [_fact(kinds[n % len(kinds)], n // len(kinds), draw) for n in range(count)]


def _fact(kind: FactKind, turn: int, draw: ValueSource) -> Fact:
    wording = WORDINGS[kind][turn % len(WORDINGS[kind])]
    about, value = draw.value(ValueKind.NAME), draw.value(wording.of)
    stale = draw.value(wording.of) if wording.first else ""
    return Fact(
        kind=kind,
        speaker=wording.speaker,
        said=wording.said.format(about=about, value=value),
        question=wording.question.format(about=about),
        value=value,
        first=wording.first.format(about=about, value=stale),
        stale=stale,
    )
