"""Tokenizing a text for search, the same way for indexed lines and for questions.

Rule 1: a word is a run of letters and digits, without accents and in lower case. Scripts that are written without
        spaces are split into overlapping pairs of characters.
Rule 2: stop words are left out; the rest is reduced to stems.
Rule 3: any string is accepted; other characters (NUL, a lone surrogate, punctuation) are skipped.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from holdfast.providers.local.stemmer import stem

WORD_CHARS_MAX = 64  # longer runs are hashes and encoded files, which no question contains

_COMMON = """
a about after again all also am an and any are as at be because been before being between both but by can could d did
do does doing don down during each few for from get go going gone got had has have having he her here hers him his how
i if image in into is it its just ll lot m many may me might more most much must my myself no nor not now of off on
once one ones only or other our ours out over own photo photograph picture re really s same shall she should so some
such t than that the their theirs them then there these they this those through to too under up us ve very was we went
were what when where which while who whom whose why will with would you your yours
"""
COMMON = frozenset(_COMMON.split())

# Letters and digits; in the scripts of South Asia also vowel signs, which `re` does not count as letters.
_RUN = re.compile("(?:[^\\W_]|[\u0900-\u0963\u0966-\u0eff\u1000-\u109f\u1780-\u17ff])+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_POSSESSIVE = re.compile(r"['\u2019]s\b")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")


def words(text: str) -> Iterator[str]:
    """The words of a text, in order."""
    plain = _POSSESSIVE.sub(" ", _without_accents(text.casefold())).replace("'", "").replace("\u2019", "")
    for run in _RUN.findall(plain):
        if run.isascii() or not _UNSPACED.search(run):
            yield run[:WORD_CHARS_MAX]
        else:
            yield from _pairs(run)


def stems(said: Iterable[str]) -> list[str]:
    """The search terms of the words of a text, in order."""
    return [stem(word) for word in said if word not in COMMON]


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _pairs(run: str) -> Iterator[str]:
    at = 0
    for found in _UNSPACED.finditer(run):
        if found.start() > at:
            yield run[at : found.start()][:WORD_CHARS_MAX]
        part = found.group()
        yield from (part[n : n + 2] for n in range(max(1, len(part) - 1)))
        at = found.end()
    if at < len(run):
        yield run[at:][:WORD_CHARS_MAX]
