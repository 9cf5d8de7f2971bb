"""Whether a context still contains a fact, decided without a model.

Rule 1: a fact is kept if its value is in the model's context, in one of its usual spellings.
Rule 2: of a corrected fact the newest value must be there, and the outdated one must not appear as current. In a
        summary both as plain claims contradict each other, so the fact is stale; in messages quoted in their order,
        the later one counts.
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
    TAIL = "tail"  # word for word, in the remaining turns
    SUMMARY = "summary"
    RECALL = "recall"  # only by recall from memory
    STALE = "stale"  # an outdated value appears as current
    LOST = "lost"


def where_kept(fact: Fact, summary: str, tail: Sequence[str], recalled: Sequence[str] = ()) -> Retention:
    """Where the context contains the fact. `tail` and `recalled` are quoted messages, each in their order."""
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
    """In ordered messages the last mention counts."""
    for text in reversed(texts):
        for sentence in reversed(_sentences(text)):
            if _holds(sentence, fact.value):
                return Retention.TAIL
            if _claims_stale(sentence, fact):
                return Retention.STALE
    return Retention.LOST


def _claimed(fact: Fact, text: str) -> Retention:
    """In a summary every sentence counts, at any position."""
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
    """The equivalent spellings of a value."""
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
