"""Ranking: which remembered lines answer a question best. The caller looks lines up; this says what they are worth.

A line is worth what its words say (bm25, each word by how rare it is), and what stands around it says: an answer
seldom repeats its question, so worth flows to the lines before and after, most of all from a question to what follows
it; and a line of a scene (an unbroken stretch of a session) that is about the matter is more likely to be. Then a line
counts for more when it was said by whom the question names, at the time it asks for, lately, or in this very chat.

Rule 1: nothing here knows any particular conversation: the numbers of `Weights` were chosen on some and checked on
        others, and neighbouring values do nearly as well.
Rule 2: equal inputs rank equally; ties go to the newer line.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from holdfast.kernel.dates import Days, days_asked
from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.providers.local.stemmer import stem
from holdfast.providers.local.synonyms import KINDRED
from holdfast.providers.local.tokenizer import COMMON, words

TERMS_MAX = 64  # a question is a sentence; of a pasted page the first words count
FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself", "im", "ive"})
SECOND_PERSON = frozenset({"you", "your", "yours", "yourself"})
NAME_CHARS_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    k1: float = 1.2  # bm25: how soon repetition stops counting; here a word is in a line or not
    b: float = 0.3  # bm25: how much long lines are held back
    kindred: float = 0.3  # of a word's worth
    name: float = 0.2  # a speaker's name as a word: people call each other by name in any line
    phrase: float = 0.5  # two words of the question side by side
    scene: float = 1.2
    scene_half: float = 1.2  # so many lines of a scene with a word give half of what many would
    around: Mapping[int, float] = field(
        default_factory=lambda: {1: 0.3, -1: 0.3, 2: 0.2, -2: 0.15, 3: 0.05, -3: 0.05}  # by distance, behind positive
    )
    answer: float = 0.3  # flows in addition from a question to the next line
    speaker: float = 2.0
    dated: float = 1.4  # tells a time, where the question asks when
    days: float = 1.4  # was said on the days that the question names
    question: float = 0.8  # asks itself
    chat: float = 1.05  # was said in this very chat
    recent: float = 0.1  # at most, for what was said just now
    recent_half_ms: int = 30 * 86_400_000


DEFAULT = Weights()
Spot: TypeAlias = tuple[int, int]  # a scene, and the position of a line in it


class Trace(NamedTuple):
    """A line as ranking sees it, without its words. A tuple, since thousands are made for one question."""

    id: int
    scene: int
    position: int  # lines of a scene are numbered in the order they were said
    speaker: str
    address: str
    at: Instant
    size: int  # in stems
    asks: bool
    dated: bool

    @property
    def spot(self) -> Spot:
        return self.scene, self.position


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, as far as ranking understands it."""

    terms: Mapping[str, float]  # stems, and what share of a word each counts for
    phrases: tuple[tuple[str, str], ...] = ()
    speakers: frozenset[str] = frozenset()  # whose lines are preferred; empty when all are alike
    days: Days | None = None
    asks_when: bool = False
    address: str = ""
    now: Instant = Instant(0)


def read_question(
    text: str,
    *,
    voices: Collection[str] = (),
    asker: Principal = Principal(""),
    agent: AgentName = AgentName(""),
    address: str = "",
    now: Instant = Instant(0),
    weights: Weights = DEFAULT,
) -> Question:
    """`voices` are those who spoke in what may be shown; `asker` is whom `I` means, `agent` whom `you` means."""
    asked = list(words(text))
    names = {voice: names_of(voice) & set(asked) for voice in voices}
    named = {voice for voice, found in names.items() if found} | _pronouns(asked, voices, asker, agent)
    content = [word for word in dict.fromkeys(asked) if word not in COMMON][:TERMS_MAX]
    called = frozenset().union(*names.values())
    spoken = [stem(word) for word in content if word not in called]
    terms = {stem(word): weights.name for word in content if word in called} | dict.fromkeys(spoken, 1.0)
    for word in spoken:
        for other in sorted(KINDRED.get(word, ())):
            terms.setdefault(other, weights.kindred)
    return Question(
        terms=terms,
        phrases=tuple(pairwise(spoken)),
        speakers=frozenset(named) if len(named) < len(voices) else frozenset(),
        days=days_asked(asked, now),
        asks_when=_asks_when(asked),
        address=address,
        now=now,
    )


def names_of(voice: str) -> frozenset[str]:
    """The words that call a speaker: `telegram:42:ada` is called ada."""
    return frozenset(
        word for word in words(voice) if len(word) >= NAME_CHARS_MIN and word.isalpha() and word not in COMMON
    )


def _pronouns(asked: Sequence[str], voices: Collection[str], asker: Principal, agent: AgentName) -> set[str]:
    if FIRST_PERSON & set(asked):
        return set(voices) & {asker}
    return set(voices) & {agent} if SECOND_PERSON & set(asked) else set()


def _asks_when(asked: Sequence[str]) -> bool:
    """At the start, since `what did she say when ...` asks for something else."""
    units = {"date", "day", "month", "year", "time"}
    return "when" in asked[:3] or (asked[:1] in (["what"], ["which"]) and bool(units & set(asked[1:2])))


# --- worth -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a term, or a phrase, was seen."""

    weight: float
    lines: Sequence[Trace]


def said_worth(sightings: Iterable[Sighting], total: int, weights: Weights = DEFAULT) -> dict[int, float]:
    """What each line's own words are worth, by line id (bm25). `total` is how many lines there are."""
    seen = list(sightings)
    sizes = [line.size for sighting in seen for line in sighting.lines]
    mean = max(1.0, sum(sizes) / len(sizes)) if sizes else 1.0
    worth: defaultdict[int, float] = defaultdict(float)
    for sighting in seen:
        gain = sighting.weight * _rarity(len(sighting.lines), total) * (weights.k1 + 1)
        for line in sighting.lines:
            worth[line.id] += gain / (1 + weights.k1 * (1 - weights.b + weights.b * line.size / mean))
    return dict(worth)


def scene_worth(sightings: Iterable[Sighting], scenes: int, weights: Weights = DEFAULT) -> dict[int, float]:
    """What a scene as a whole says of the matter. `scenes` is how many there are, roughly."""
    worth: defaultdict[int, float] = defaultdict(float)
    for sighting in sightings:
        counts: defaultdict[int, int] = defaultdict(int)
        for line in sighting.lines:
            counts[line.scene] += 1
        gain = sighting.weight * _rarity(len(counts), scenes)
        for scene, count in counts.items():
            worth[scene] += gain * count / (count + weights.scene_half)
    return dict(worth)


def spread(lines: Iterable[Trace], worth: Mapping[int, float], weights: Weights = DEFAULT) -> dict[Spot, float]:
    """Worth flows to what stands around in the same scene. A spot may turn out to be empty."""
    spots: defaultdict[Spot, float] = defaultdict(float)
    for line in lines:
        own = worth[line.id]
        spots[line.spot] += own
        for distance, share in weights.around.items():
            extra = weights.answer if distance == 1 and line.asks else 0.0
            spots[line.scene, line.position + distance] += own * (share + extra)
    return dict(spots)


def value(
    line: Trace, spread_worth: float, scene: float, question: Question, weights: Weights = DEFAULT
) -> tuple[float, int]:
    """What a line is worth in the end, with its id to settle ties."""
    total = spread_worth + weights.scene * scene
    if line.speaker in question.speakers:
        total *= weights.speaker
    if question.asks_when and line.dated:
        total *= weights.dated
    if question.days is not None and question.days.holds(line.at):
        total *= weights.days
    if line.asks:
        total *= weights.question
    if question.address and line.address == question.address:
        total *= weights.chat
    age_ms = max(0, question.now - line.at)
    return total * (1 + weights.recent * 0.5 ** (age_ms / weights.recent_half_ms)), line.id


def _rarity(found: int, total: int) -> float:
    return math.log(1 + (max(total, found) - found + 0.5) / (found + 0.5))
