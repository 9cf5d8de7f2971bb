"""Quotation: whether a text of the agent repeats words of a forgotten person (D25).

Rule 1: a term is a significant word of the person: at least three characters, or one with a digit, and not a stop word.
        Case, width and compatibility forms are ignored. Scripts without spaces are split into pairs of characters.
Rule 2: a text quotes the person if it has one of their terms, alone or inside a longer word. One term is enough: a name
        or a number can be a secret by itself.
Rule 3: a word that another person said in the same conversation is not evidence of a quotation. Neither is a word that
        the agent said there first and the person never said.
Rule 4: of the agent's own answers to the person, only names and numbers count: its phrases occur in every answer. Tool
        results for the person count like the person's own words.
Rule 5: in doubt an answer is erased. People's own messages are never judged here.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from holdfast.turns.journal import AnyBody, AssistantSaid, Noticed, Observed, Recalled, ToolReturned, UserSaid

TERM_CHARS_MIN = 3
INSIDE_CHARS_MIN = 5  # shorter terms match whole words only: "category" does not quote "cat"
_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u109f\u1780-\u17ff\u1ab0-\u1aff"
_WORD = re.compile(f"(?:[^\\W_]|[{_MARKS}])+")
# Thai, Lao, Tibetan, Burmese, Khmer, Chinese, Japanese and Korean: words are not always separated by spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_FROM_AGENT = re.compile(r"\A\[a message from the agent [^\]\n]*\]\n")  # the prefix that channels/agent.py writes
_SENTENCE_BEGINS = re.compile(r"[.!?:\n]\W*\Z")
_COMMON_WORDS = """
about after again all also although always and another any anybody anyone anything are aren because been before being
both but can cannot could did didn does doesn doing don done each either else ever every everybody everyone everything
few for from get gets getting give given goes going gone got had has hasn have haven having her here hers herself him
himself his how however into isn its itself just let like made make makes many may maybe might more most much must
myself neither never nobody none nor not nothing now off often one only onto other others our ours ourselves out over
own perhaps please put said same say says see seen shall she should shouldn since some somebody someone something still
such take than that the their theirs them themselves then there these they thing things this those though through thus
too under until upon use used very was wasn way well went were weren what when where whether which while who whom whose
why will with within without won would wouldn yes yet you your yours yourself yourselves"""
_COMMON = frozenset(_COMMON_WORDS.split())


def terms_in(text: str) -> set[str]:
    """The significant words of a text."""
    return {word for word in words_in(text) if _is_term(word)}


def names_in(text: str) -> set[str]:
    """The terms that look like names: with a digit, or with a capital letter within a sentence."""
    found: set[str] = set()
    text = unicodedata.normalize("NFKC", text)
    for word in _WORD.finditer(text):
        is_first = _SENTENCE_BEGINS.search(text[max(0, word.start() - 4) : word.start()]) is not None
        raw = word[0][1:] if is_first or not word.start() else word[0]
        if any(char.isdigit() or char.isupper() for char in raw):
            found |= terms_in(word[0])
    return found


def words_in(text: str) -> Iterator[str]:
    for found in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = found[0]
        if word.isascii():
            yield word
        else:
            yield from _cut(word)


def _cut(word: str) -> Iterator[str]:
    """Split a word: pairs of characters for scripts without spaces; the rest as separate words."""
    end = 0
    for found in _UNSPACED.finditer(word):
        if found.start() > end:
            yield word[end : found.start()]
        run, end = found[0], found.end()
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
    if end < len(word):
        yield word[end:]


def _is_term(word: str) -> bool:
    if word in _COMMON:
        return False
    return len(word) >= TERM_CHARS_MIN or any(map(str.isdigit, word)) or _UNSPACED.match(word) is not None


@dataclass(slots=True)
class Terms:
    """The terms to look for: the person's own, and those of the agent's answers to the person."""

    said: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    _lengths: frozenset[int] | None = None

    def __bool__(self) -> bool:
        return bool(self.said or self.answered)

    def add_said(self, text: str) -> None:
        self.said |= terms_in(text)
        self._lengths = None

    def add_answered(self, body: AnyBody) -> None:
        """Add an entry that the agent made in a turn of the person."""
        terms_of = terms_in if isinstance(body, ToolReturned) else names_in
        for text in made_texts(body):
            self.answered |= terms_of(text)
        self._lengths = None

    def known_in(self, text: str) -> set[str]:
        """The terms that are whole words of a text."""
        words = set(words_in(text))
        return (words & self.said) | (words & self.answered)

    def quoted_in(self, texts: Iterable[str], others: Collection[str], earlier: Collection[str] = ()) -> bool:
        """Whether a text has a term that is neither in `others`, the words of other people, nor, if only the agent said
        it, in `earlier`."""
        return any(
            term not in others and (term in self.said or term not in earlier)
            for text in texts
            for word in set(words_in(text))
            for term in self._within(word)
        )

    def _within(self, word: str) -> Iterator[str]:
        if word in self.said or word in self.answered:
            yield word
        for length in self._inside_lengths():
            for at in range(len(word) - length + 1):
                part = word[at : at + length]
                if part != word and (part in self.said or part in self.answered):
                    yield part

    def _inside_lengths(self) -> frozenset[int]:
        if self._lengths is None:
            self._lengths = frozenset(
                len(term) for terms in (self.said, self.answered) for term in terms if len(term) >= INSIDE_CHARS_MIN
            )
        return self._lengths


def made_texts(body: AnyBody) -> list[str]:
    """The agent's texts in an entry: answers, call arguments, tool results, notices."""
    match body:
        case AssistantSaid(text=text, calls=calls):
            return [text, *(part for call in calls for part in _arguments(call.arguments))]
        case ToolReturned(name="send_message"):
            return []  # our own text about a sent message
        case ToolReturned(text=text):
            return [text, *_arguments(text)]
        case Noticed(text=text) | Recalled(text=text):
            return [text]
        case UserSaid(text=text) | Observed(text=text):
            return [_FROM_AGENT.sub("", text)]
    return []


def _arguments(raw: str) -> list[str]:
    """A JSON text and every string in it, because escapes hide words."""
    if raw[:1] not in '{["':
        return [raw]
    try:
        return [raw, *_strings(msgspec.json.decode(raw))]
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return [raw]


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _strings(one)
        case Mapping():
            for name, one in value.items():
                yield str(name)
                yield from _strings(one)
