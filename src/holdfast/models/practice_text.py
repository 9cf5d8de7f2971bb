"""Sentences, facts and words of a text, by regular expressions, for the practice model.

Every repetition is bounded or stands alone, so that matching takes linear time on any message.
"""

import re

FACT = re.compile(
    r"\b(?:my|our|the|his|her)(?:\s{1,4}[\w'-]{1,30}){1,8}?\s{1,4}(?:is|are|was|were|lives?|likes?)\b[^.!?\n]{1,160}"
    r"|\bI(?:'m| am| live| like| love| have| work| need| prefer)\b[^.!?\n]{1,160}"
    r"|\bremember (?:that )?[^.!?\n]{1,160}",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_WORD = re.compile(r"[\w']+")
_COMMON = frozenset(
    {
        *("a", "an", "and", "are", "called", "did", "do", "does", "for", "have", "i", "in", "is", "it", "me", "my"),
        *("name", "of", "on", "our", "remember", "say", "tell", "that", "the", "to", "was", "we", "were", "what"),
        *("when", "where", "which", "who", "why", "you", "your", "about", "know", "can", "how", "s", "what's"),
    }
)


def facts(text: str) -> list[str]:
    return [match.group(0).strip() for match in FACT.finditer(text)]


def sentences(text: str) -> list[str]:
    return _SENTENCE_END.split(text)


def keywords(text: str) -> set[str]:
    return {word.lower().removesuffix("'s") for word in _WORD.findall(text)} - _COMMON
