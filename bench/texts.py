"""The words that every contestant stores, answers and recalls. All of it is fixed by number or by seed."""

import random
from functools import cache

USER = "What did we decide about the harbour project and who takes the next step? " * 4
ASSISTANT = "We agreed that the survey comes first and that the report is due on Friday. " * 11
INSTRUCTIONS = "Be helpful."
TAIL = 50  # messages of context that a contestant reads back or hands to its model, where it can be told

# Most words recur in every message, as in one person's talk about one subject: many remembered lines share each term.
_WORDS = "the agent session memory provider flush journal outbox turn token user assistant tool call result error retry"
_VARIANTS = 400
_VOCABULARY = 20_000
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "xu", "za")


def message(number: int) -> str:
    """A message of about 700 characters."""
    return f"{_WORDS} lease worker {number % _VARIANTS} " * 6


ANSWER = message(3)


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    chance = random.Random(13)
    words = ["".join(chance.choices(_SYLLABLES, k=3)) + f"{number:x}" for number in range(_VOCABULARY)]
    cumulative, total = [], 0.0
    for rank in range(1, _VOCABULARY + 1):
        total += 1 / rank  # the frequencies of natural language fall about like this
        cumulative.append(total)
    return words, cumulative


def line(number: int, words: int = 14) -> str:
    """A remembered line of words with natural frequencies; the same number gives the same line."""
    vocabulary, cumulative = _vocabulary()
    return " ".join(random.Random(number).choices(vocabulary, cum_weights=cumulative, k=words))


def question(number: int, lines: int) -> str:
    """Four words of one of the first `lines` lines, and two others."""
    chance = random.Random(f"question {number}")
    known = line(chance.randrange(lines)).split()
    return " ".join([*chance.sample(known, 4), *line(-number - 1, 2).split()])
