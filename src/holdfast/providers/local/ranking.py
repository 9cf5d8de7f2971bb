"""Ranking: which indexed lines answer a question best. The caller finds the lines; this module scores them.

A line's score comes from its own words (bm25, each word by its rarity) and from its neighbours: an answer seldom
repeats its question, so a score spreads to the lines before and after, most of all from a question to the next line;
and a line in a scene (an unbroken part of a session) about the subject is more likely to be relevant. The score rises
if the line is by a speaker whom the question names, from the time that it asks for, recent, or from the same chat.

The number of a line is the number of its scene, then its position in the scene, so that ranking knows the scene and the
neighbours of every line without a read. Unused positions lie between two scenes, so a neighbour's number never belongs
to another scene.

Rule 1: no rule depends on a particular conversation: the numbers of `Weights` were chosen on some conversations and
        checked on others, and neighbouring values do nearly as well.
Rule 2: equal inputs rank equally; ties go to the newer line.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.providers.local.synonyms import SYNONYMS
from holdfast.providers.local.tokenizer import COMMON, Days, days_asked, stem, words

SCENE_LINES_MAX = 64
POSITION_BITS = 7  # positions 1 to 64; the distance between scenes exceeds every distance of `Weights.around`
POSITION_MASK = (1 << POSITION_BITS) - 1
TERMS_MAX = 64  # a question is a sentence; of a pasted page only the first words count
FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself", "im", "ive"})
SECOND_PERSON = frozenset({"you", "your", "yours", "yourself"})
NAME_CHARS_MIN = 3
MATCHED_MAX = 400  # lines that are compared by their scenes
LIKELY_MAX = 100  # lines that are read at once, and whose score spreads to their neighbours
SCENE_LINES = 20  # approximate lines of a scene, to estimate how rare a word is among scenes


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    k1: float = 1.2  # bm25: saturation of term frequency; here a term is in a line or not
    b: float = 0.3  # bm25: penalty for long lines
    synonym: float = 0.3  # share of a word's weight
    name: float = 0.2  # a speaker's name as a word: it occurs in lines about anything
    phrase: float = 0.5  # two words of the question in a row
    scene: float = 1.2
    scene_half: float = 1.2  # this many lines of a scene with a word give half the maximum
    around: Mapping[int, float] = field(
        default_factory=lambda: {1: 0.3, -1: 0.3, 2: 0.2, -2: 0.15, 3: 0.05, -3: 0.05}  # by distance to the line
    )
    answer: float = 0.3  # extra share from a question to the next line
    speaker: float = 2.0
    dated: float = 1.4  # the line states a time, and the question asks when
    days: float = 1.4  # the line is from the days that the question names
    question: float = 0.8  # the line is itself a question
    chat: float = 1.05  # the line is from the same chat
    recent: float = 0.1  # the maximum, for a line of this moment
    recent_half_ms: int = 30 * 86_400_000


WEIGHTS = Weights()


def line_id(scene: int, position: int) -> int:
    return scene << POSITION_BITS | position


class IndexedLine(NamedTuple):
    """A line without its text."""

    id: int  # scene and position (`line_id`)
    speaker: str
    address: str
    at: Instant
    size: int  # in stems
    asks: bool
    dated: bool
    stems: str  # in their order, each with a space before and after it


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuestion:
    """The features of a question that ranking uses."""

    terms: Mapping[str, float]  # stems with their weights
    phrases: tuple[tuple[str, str], ...] = ()
    speakers: frozenset[str] = frozenset()  # preferred speakers; empty for no preference
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
) -> ParsedQuestion:
    """`voices` are the speakers of the visible chats; `asker` is the meaning of `I`, `agent` of `you`."""
    asked = list(words(text))
    said = set(asked)
    names = {voice: names_of(voice) & said for voice in voices}
    named = {voice for voice, found in names.items() if found} | _pronouns(asked, voices, asker, agent)
    content = [word for word in dict.fromkeys(asked) if word not in COMMON][:TERMS_MAX]
    called = frozenset().union(*names.values())
    spoken = [stem(word) for word in content if word not in called]
    terms = {stem(word): WEIGHTS.name for word in content if word in called} | dict.fromkeys(spoken, 1.0)
    for word in spoken:
        for other in sorted(SYNONYMS.get(word, ())):
            terms.setdefault(other, WEIGHTS.synonym)
    return ParsedQuestion(
        terms=terms,
        phrases=tuple(pairwise(spoken)),
        speakers=frozenset(named) if len(named) < len(voices) else frozenset(),
        days=days_asked(asked, now),
        asks_when=_asks_when(asked),
        address=address,
        now=now,
    )


@lru_cache(maxsize=10_000)
def names_of(voice: str) -> frozenset[str]:
    """The words that name a speaker: for `telegram:42:ada` it is ada."""
    return frozenset(
        word for word in words(voice) if len(word) >= NAME_CHARS_MIN and word.isalpha() and word not in COMMON
    )


def _pronouns(asked: Sequence[str], voices: Collection[str], asker: Principal, agent: AgentName) -> set[str]:
    if FIRST_PERSON & set(asked):
        return set(voices) & {asker}
    return set(voices) & {agent} if SECOND_PERSON & set(asked) else set()


def _asks_when(asked: Sequence[str]) -> bool:
    """Only at the start: `what did she say when ...` asks for something else."""
    units = {"date", "day", "month", "year", "time"}
    return "when" in asked[:3] or (asked[:1] in (["what"], ["which"]) and bool(units & set(asked[1:2])))


# --- scores -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TermMatches:
    """The lines that a term occurs in. `found` is their number; `lines` are the ones that were read."""

    weight: float
    lines: Collection[int]
    found: int


def likely_lines(matches: Sequence[TermMatches], total: int) -> tuple[dict[int, float], list[int]]:
    """The scores of scenes, and the lines most likely to score high, best first, judged by their numbers alone."""
    scores = first_scores(matches, total)
    matched = strongest(scores, MATCHED_MAX)
    scenes = scene_scores(matches, total // SCENE_LINES, {line >> POSITION_BITS for line in matched})
    likely = with_scenes({line: scores[line] for line in matched}, scenes)
    return scenes, best_of(likely, MATCHED_MAX)


def best_of(scores: Mapping[int, float], most: int) -> list[int]:
    """The lines with the highest scores, best first; of equal ones the newer first."""
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)[:most]


def with_scenes(scores: Mapping[int, float], scenes: Mapping[int, float]) -> dict[int, float]:
    """The scores of lines, with those of their scenes."""
    share = WEIGHTS.scene
    return {line: score + share * scenes[line >> POSITION_BITS] for line, score in scores.items()}


def first_scores(matches: Iterable[TermMatches], total: int) -> dict[int, float]:
    """The approximate score of each line's own words. `total` is the number of lines."""
    scores: dict[int, float] = {}
    repeats = False  # whether most lines of the last term were known: one pass over all of them is cheaper then
    for match in matches:
        gain, known = match.weight * _rarity(match.found, total), len(scores)
        if repeats:
            for line in match.lines:
                scores[line] = scores.get(line, 0.0) + gain
        else:
            gains = dict.fromkeys(match.lines, gain)
            for line in scores.keys() & gains.keys():
                gains[line] += scores[line]
            scores.update(gains)
        repeats = len(scores) - known < len(match.lines) / 2
    return scores


def strongest(scores: Mapping[int, float], most: int) -> list[int]:
    """The lines with the highest scores, in no order; of equal ones the newer. Many lines have the same score."""
    if len(scores) <= most:
        return list(scores)
    equal: defaultdict[float, list[int]] = defaultdict(list)
    for line, score in scores.items():
        equal[score].append(line)
    found: list[int] = []
    for score in sorted(equal, reverse=True):
        room = most - len(found)
        found += equal[score] if len(equal[score]) <= room else sorted(equal[score], reverse=True)[:room]
    return found


def needles_of(terms: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The terms, each with how it stands among the stems of a line."""
    return tuple((term, f" {term} ") for term in terms)


def terms_in(stems: str, needles: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The terms among the stems of a line. They are searched for: to cut the line into words costs more."""
    return frozenset([term for term, needle in needles if needle in stems])


def line_scores(
    lines: Collection[IndexedLine], question: ParsedQuestion, found: Mapping[str, int], total: int
) -> dict[int, float]:
    """The score of each line's own words, by line id (bm25). `found` is the number of lines with a term."""
    gains = {term: weight * _rarity(found.get(term, 0), total) for term, weight in question.terms.items()}
    needles = needles_of(gains)
    matched = [(line, terms_in(line.stems, needles)) for line in lines]
    sizes = [line.size for line, terms in matched if terms]
    mean = max(1.0, sum(sizes) / (len(sizes) or 1))
    sums = {terms: math.fsum(map(gains.__getitem__, terms)) for terms in {terms for _, terms in matched}}
    phrases = {pair: f" {pair[0]} {pair[1]} " for pair in question.phrases}
    of_terms = {terms: [pair for pair in phrases if terms.issuperset(pair)] for terms in sums}
    spoken = [[pair for pair in of_terms[terms] if phrases[pair] in line.stems] for line, terms in matched]
    holders = Counter(chain.from_iterable(spoken))
    phrase_gains = {pair: WEIGHTS.phrase * _rarity(count, total) for pair, count in holders.items()}
    scores: dict[int, float] = {}
    for (line, terms), pairs in zip(matched, spoken, strict=True):
        score = sums[terms] + math.fsum(map(phrase_gains.__getitem__, pairs))
        scores[line.id] = score * (WEIGHTS.k1 + 1) / (1 + WEIGHTS.k1 * (1 - WEIGHTS.b + WEIGHTS.b * line.size / mean))
    return scores


def scene_scores(matches: Iterable[TermMatches], scenes: int, among: Collection[int]) -> dict[int, float]:
    """The score of each scene of `among` as a whole. `scenes` is the approximate number of all scenes."""
    scores = dict.fromkeys(among, 0.0)
    for match in matches:
        counts = Counter([line >> POSITION_BITS for line in match.lines])
        gain = match.weight * _rarity(len(counts), scenes)
        gains = {count: gain * count / (count + WEIGHTS.scene_half) for count in set(counts.values())}
        for scene in scores.keys() & counts.keys():
            scores[scene] += gains[counts[scene]]
    return scores


def spread_scores(lines: Iterable[IndexedLine], scores: Mapping[int, float]) -> dict[int, float]:
    """Spread scores to neighbours in the same scene, by line id. There may be no line of an id."""
    spread: defaultdict[int, float] = defaultdict(float)
    around = tuple(WEIGHTS.around.items())
    for line in lines:
        number = line.id
        own = scores[number]
        spread[number] += own
        for distance, share in around:
            spread[number + distance] += own * share
        if line.asks:
            spread[number + 1] += own * WEIGHTS.answer
    # A neighbour of the first or last line of a scene may have a number that no line can have.
    return {number: score for number, score in spread.items() if 1 <= number & POSITION_MASK <= SCENE_LINES_MAX}


def final_score(line: IndexedLine, total: float, question: ParsedQuestion) -> tuple[float, int]:
    """The final score of a line, with its id to break ties. `total` is the score of its words and of its scene."""
    if line.speaker in question.speakers:
        total *= WEIGHTS.speaker
    if question.asks_when and line.dated:
        total *= WEIGHTS.dated
    if question.days is not None and question.days.holds(line.at):
        total *= WEIGHTS.days
    if line.asks:
        total *= WEIGHTS.question
    if question.address and line.address == question.address:
        total *= WEIGHTS.chat
    age_ms = max(0, question.now - line.at)
    return total * (1 + WEIGHTS.recent * 0.5 ** (age_ms / WEIGHTS.recent_half_ms)), line.id


def _rarity(found: int, total: int) -> float:
    return math.log(1 + (max(total, found) - found + 0.5) / (found + 0.5))
