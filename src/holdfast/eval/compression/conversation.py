"""The conversation that facts are planted in: mostly small talk.

The small talk has names, days and small numbers of its own, so that a summariser that keeps all of them exceeds its
limit. It never contains a planted value, and the answers never repeat one.
"""

from dataclasses import dataclass
from itertools import pairwise

from holdfast.eval.compression.facts import Fact, ValueSource, make_facts
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ports import Entropy
from holdfast.turns.journal import estimate_tokens

TURNS_MIN_PER_COMPRESSION = 4
TURNS_MAX = 20_000
CORRECTED_WITHIN = 3  # a correction follows within turns // 3

_PEOPLE = ("Tom", "Maria", "the plumber", "my brother", "a colleague", "the teacher", "Sam", "the landlord")
_DAYS = ("Monday", "Tuesday", "Thursday", "Sunday", "yesterday", "this morning", "last night", "at noon")
_USER = (
    "The weather turned {day} and everybody stayed indoors.",
    "I talked to {person} for a while, nothing special.",
    "The train was {n} minutes late again, and it was crowded.",
    "There was soup at the canteen {day}, too salty as usual.",
    "Do you ever get tired of such questions?",
    "I slept badly and had {n} coffees to make up for it.",
    "The printer jammed {n} times before it gave up.",
    "I watched half of a film {day} and fell asleep.",
    "It took {person} an hour to find a place to park.",
    "The meeting went round in circles, as meetings do.",
    "Somebody left the window open {day}, so it was freezing.",
    "I read a few pages of the book on the bus.",
    "How would you spend a rainy afternoon?",
    "The dog next door barked for {n} hours.",
    "I walked home with {person} and we chatted about this and that.",
    "The garden looks a bit wild at the moment.",
    "My phone was almost empty {day}.",
    "We laughed a lot about the old photographs.",
    "I have {n} mails to answer, none of them urgent.",
    "My shoes are still wet from {day}.",
    "The lift at work was stuck with {person} in it.",
    "I will probably go to bed early.",
)
_ASSISTANT = (
    "That sounds like a long day.",
    "A short walk often helps with that, or a glass of water.",
    "Thank you for telling me about it.",
    "There are a few ways to look at it, and none of them is wrong.",
    "It is quite common, and it usually passes by itself.",
    "If you like, we can go through it step by step another time.",
    "People often find that a list on paper makes such things easier.",
    "A rainy afternoon is good for reading, cooking or sorting old things.",
    "That must have been tiring, especially so early in the week.",
    "Some days are simply like that, and the next one is better.",
)


@dataclass(slots=True)
class DialogueTurn:
    """One turn: the user's message and the assistant's answer."""

    user: str
    assistant: str

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.user) + estimate_tokens(self.assistant)


@dataclass(frozen=True, slots=True)
class PlantedFact:
    """A fact with the turns (from 1) of its final version and of the version that it corrects."""

    fact: Fact
    turn: int
    first_turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedConversation:
    exchanges: tuple[DialogueTurn, ...]
    planted: tuple[PlantedFact, ...]
    segments: tuple[range, ...]  # turns between compressions, from 1

    def said_by(self, turn: int) -> list[PlantedFact]:
        """The facts whose final version was said up to a turn."""
        return [one for one in self.planted if one.turn <= turn]


def make_conversation(entropy: Entropy, *, turns: int, facts: int, compressions: int) -> PlantedConversation:
    """Raises `InvalidInput` if the numbers do not fit together."""
    _check(turns, facts, compressions)
    draw = ValueSource(entropy)
    made = make_facts(facts, draw)
    planted = tuple(_plant(fact, n, facts, turns, draw) for n, fact in enumerate(made))
    exchanges = tuple(_exchange(turn, planted, draw) for turn in range(1, turns + 1))
    edges = [turns * n // compressions for n in range(compressions + 1)]
    segments = tuple(range(start + 1, end + 1) for start, end in pairwise(edges))
    return PlantedConversation(exchanges=exchanges, planted=planted, segments=segments)


def _check(turns: int, facts: int, compressions: int) -> None:
    if not 1 <= compressions <= 6:
        raise InvalidInput(f"compressions is {compressions}; it must be from 1 to 6")
    least = max(8, compressions * TURNS_MIN_PER_COMPRESSION)
    if not least <= turns <= TURNS_MAX:
        raise InvalidInput(f"turns is {turns}; {compressions} compressions need from {least} to {TURNS_MAX}")
    if not 1 <= facts <= turns:
        raise InvalidInput(f"facts is {facts}; it must be from 1 to the number of turns, which is {turns}")


def _plant(fact: Fact, n: int, facts: int, turns: int, draw: ValueSource) -> PlantedFact:
    """Place the facts evenly, each at a random turn of its own range."""
    start, end = turns * n // facts, turns * (n + 1) // facts
    turn = start + 1 + draw.below(max(1, end - start))
    if not fact.first:
        return PlantedFact(fact, turn)
    first_turn = min(turn, turns - 1)
    gap = 1 + draw.below(min(max(1, turns // CORRECTED_WITHIN), turns - first_turn))
    return PlantedFact(fact, first_turn + gap, first_turn)


def _exchange(turn: int, planted: tuple[PlantedFact, ...], draw: ValueSource) -> DialogueTurn:
    sentences = {"user": _talk(_USER, 2 + draw.below(3), draw), "assistant": _talk(_ASSISTANT, 2 + draw.below(3), draw)}
    for one in planted:
        if one.turn == turn:
            _insert(sentences[one.fact.speaker], one.fact.said, draw)
        if one.first_turn == turn:
            _insert(sentences[one.fact.speaker], one.fact.first, draw)
    return DialogueTurn(user=" ".join(sentences["user"]), assistant=" ".join(sentences["assistant"]))


def _insert(sentences: list[str], said: str, draw: ValueSource) -> None:
    sentences.insert(draw.below(len(sentences) + 1), said)


def _talk(templates: tuple[str, ...], count: int, draw: ValueSource) -> list[str]:
    made: list[str] = []
    while len(made) < count:
        said = draw.choice(templates).format(
            day=draw.choice(_DAYS), person=draw.choice(_PEOPLE), n=str(2 + draw.below(48))
        )
        if said not in made:
            made.append(said)
    return made
