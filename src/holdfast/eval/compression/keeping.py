"""Whether a fact can still be known from a context. No model is needed to say so, and none is trusted to.

Rule 1: a fact is kept when its value stands in what the model would be sent, in one of the forms people write it.
Rule 2: of a corrected fact the newest value must stand there, and the void one must not pass for current. In a
        summary both as plain claims are a contradiction, so the fact is stale; in words that are quoted in their
        order, the later one counts.
"""

import re
from collections.abc import Sequence
from enum import Enum
from functools import cache

from holdfast.eval.compression.facts import MONTHS, Fact

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
_THOUSANDS = re.compile(r"(?<=\d)[,\u2009\u202f'](?=\d{3}\b)")
_DATE = re.compile(r"(?P<day>\d{1,2}) (?P<month>[a-z]+) (?P<year>\d{4})\Z")
_PAST = re.compile(
    r"\b(was|were|earlier|former(ly)?|previous(ly)?|original(ly)?|no longer|not|instead of|rather than|used to|"
    r"before|initial(ly)?|corrected from|changed from|moved from|superseded|outdated|old)\b"
)


class Retention(Enum):
    TAIL = "tail"  # word for word, in the turns that stay
    SUMMARY = "summary"
    RECALL = "recall"  # only because memory was asked
    STALE = "stale"  # a void value passes for the current one
    LOST = "lost"


def where_kept(fact: Fact, summary: str, tail: Sequence[str], recalled: Sequence[str] = ()) -> Retention:
    """Where the fact can be known from. `tail` and `recalled` are quoted words, each in the order they were said."""
    in_context = _look(fact, summary, tail)
    if in_context is not Retention.LOST or not recalled:
        return in_context
    remembered = _quoted(fact, recalled)
    return Retention.RECALL if remembered is Retention.TAIL else remembered


def is_answered(fact: Fact, answer: str) -> bool:
    return _claimed(fact, answer) is Retention.SUMMARY


def _look(fact: Fact, summary: str, tail: Sequence[str]) -> Retention:
    quoted = _quoted(fact, tail)
    if quoted is not Retention.LOST:
        return quoted
    return _claimed(fact, summary)


def _quoted(fact: Fact, texts: Sequence[str]) -> Retention:
    """Of words in their order, the last mention counts."""
    for text in reversed(texts):
        for sentence in reversed(_sentences(text)):
            if _holds(sentence, fact.value):
                return Retention.TAIL
            if _claims_stale(sentence, fact):
                return Retention.STALE
    return Retention.LOST


def _claimed(fact: Fact, text: str) -> Retention:
    """Of a summary every sentence counts, whatever its place."""
    sentences = _sentences(text)
    if any(_claims_stale(sentence, fact) for sentence in sentences):
        return Retention.STALE
    return Retention.SUMMARY if any(_holds(sentence, fact.value) for sentence in sentences) else Retention.LOST


def _claims_stale(sentence: str, fact: Fact) -> bool:
    if not fact.stale or not _holds(sentence, fact.stale) or _holds(sentence, fact.value):
        return False
    return _PAST.search(sentence) is None


def _sentences(text: str) -> list[str]:
    return _SENTENCE.split(normal(text))


def normal(text: str) -> str:
    """Lower case, one space between words, no separators inside numbers; line breaks stay."""
    lines = (" ".join(line.split()) for line in text.casefold().splitlines())
    return _THOUSANDS.sub("", "\n".join(lines))


def _holds(normalised: str, value: str) -> bool:
    return _pattern(value).search(normalised) is not None


@cache
def _pattern(value: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, forms(value)))})(?!\w)")


def forms(value: str) -> tuple[str, ...]:
    """The ways to write a value that all say the same."""
    plain = normal(value)
    date = _DATE.match(plain)
    if date is None:
        return (plain,)
    day, month, year = int(date["day"]), date["month"], date["year"]
    number = [one.casefold() for one in MONTHS].index(month) + 1
    short = month[:3]
    return (
        *(f"{day} {name} {year}" for name in (month, short)),
        *(f"{name} {day}, {year}" for name in (month, short)),
        *(f"{name} {day} {year}" for name in (month, short)),
        f"{year}-{number:02}-{day:02}",
    )
