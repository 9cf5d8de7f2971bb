"""Tokenizing a text for search, the same way for indexed lines and for questions: words, and their stems.

Rule 1: a word is a run of letters and digits, without accents and in lower case. Scripts that are written without
        spaces are split into overlapping pairs of characters.
Rule 2: stop words are left out; the rest is reduced to stems.
Rule 3: any string is accepted; other characters (NUL, a lone surrogate, punctuation) are skipped.
Rule 4: stemming is Martin Porter's algorithm of 1980, after a table of irregular forms. Any string has a stem, and one
        that is not an English word hardly changes.
Rule 5: a change here changes the content of every index, so it needs a new version of the index file.

The words also say which days a question is about, and whether a text states a time. All times are UTC.

Rule 6: a month without a year matches that month of any year; `may` is a month only next to a year or a day.
Rule 7: people report a day afterwards, so a named day also matches the following week.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from holdfast.kernel.dates import DAY_MS, civil
from holdfast.kernel.ids import Instant

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
    plain = text.casefold()
    if not plain.isascii():
        plain = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", plain)))
    plain = _POSSESSIVE.sub(" ", plain).replace("'", "").replace("\u2019", "")
    for run in _RUN.findall(plain):
        if run.isascii() or not _UNSPACED.search(run):
            yield run[:WORD_CHARS_MAX]
        else:
            yield from _pairs(run)


def stems(said: Iterable[str]) -> list[str]:
    """The search terms of the words of a text, in order."""
    return [stem(word) for word in said if word not in COMMON]


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


# --- stems ------------------------------------------------------------------------------------------

_IRREGULAR = """
go goes went gone; get got gotten; see saw seen; take took taken; give gave given; make made; come came;
begin began begun; buy bought; bring brought; think thought; teach taught; catch caught; fight fought; seek sought;
feel felt; find found; tell told; say said; leave left; lose lost; meet met; write wrote written; speak spoke spoken;
break broke broken; choose chose chosen; drive drove driven; ride rode ridden; rise rose risen; eat ate eaten;
drink drank drunk; sing sang sung; swim swam swum; run ran; win won; sell sold; hold held; keep kept; sleep slept;
send sent; spend spent; build built; lend lent; know knew known; grow grew grown; throw threw thrown; fly flew flown;
draw drew drawn; wear wore worn; bear bore born borne; tear tore torn; fall fell fallen; forget forgot forgotten;
become became; hear heard; pay paid; lay laid; sit sat; stand stood; understand understood; shake shook shaken;
steal stole stolen; hide hid hidden; bite bit bitten; blow blew blown; wake woke woken; shoot shot; feed fed;
lead led; dream dreamt; learn learnt; mean meant; deal dealt; dig dug; hang hung; stick stuck; strike struck;
swear swore sworn; light lit; shine shone; slide slid; bend bent; freeze froze frozen; child children; man men;
woman women; person people; foot feet; tooth teeth; wife wives; life lives; mouse mice; knife knives; leaf leaves
"""
IRREGULAR = {form: group.split()[0] for group in _IRREGULAR.split(";") for form in group.split()[1:]}

_STEP_2 = (
    *(("ational", "ate"), ("ization", "ize"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    *(("tional", "tion"), ("biliti", "ble"), ("entli", "ent"), ("ousli", "ous"), ("ation", "ate"), ("alism", "al")),
    *(("aliti", "al"), ("iviti", "ive"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able")),
    *(("alli", "al"), ("ator", "ate"), ("eli", "e")),
)
_STEP_3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ness", ""), ("ful", "")),
)
_STEP_4 = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive"),
    *("ize", "al", "er", "ic", "ou"),
)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case word. Words with anything but a-z in them are their own stems."""
    word = IRREGULAR.get(word, word)
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    word = _without_ending(_without_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return _without_final_e(_without_suffix(_replaced(_replaced(word, _STEP_2), _STEP_3)))


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_ending(word: str) -> str:
    """Remove -ed and -ing."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = "ed" if word.endswith("ed") else "ing" if word.endswith("ing") else ""
    root = word.removesuffix(ending)
    if not ending or not _has_vowel(root):
        return word
    if root.endswith(("at", "bl", "iz")) or (_measure(root) == 1 and _is_short(root)):
        return root + "e"
    return root[:-1] if _is_doubled(root) and root[-1] not in "lsz" else root


def _replaced(word: str, table: tuple[tuple[str, str], ...]) -> str:
    for suffix, instead in table:
        if word.endswith(suffix):
            root = word.removesuffix(suffix)
            return root + instead if _measure(root) > 0 else word
    return word


def _without_suffix(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            root = word.removesuffix(suffix)
            is_kept = _measure(root) <= 1 or (suffix == "ion" and not root.endswith(("s", "t")))
            return word if is_kept else root
    return word


def _without_final_e(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        if _measure(root) > 1 or (_measure(root) == 1 and not _is_short(root)):
            word = root
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


# --- the shape of a word ---------------------------------------------------------------------------


def _shape(word: str) -> str:
    """The word as c for consonants and v for vowels; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    """The number of vowel-consonant sequences."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _is_doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _is_short(word: str) -> bool:
    """Ends in consonant, vowel, consonant, the last of which is not w, x or y: hop, but not snow."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


# --- dates -------------------------------------------------------------------------------------------

TOLD_WITHIN_DAYS = 7
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TELLING = """
yesterday today tomorrow tonight week weeks weekend month months year years ago last next since morning evening soon
recently summer winter spring fall autumn
"""
TELLING = frozenset({*MONTHS, *WEEKDAYS, *_TELLING.split()}) - {"may"}
_BACK = {"today": 0, "yesterday": 1, "week": 7, "month": 31, "year": 366}
_UNITS = frozenset({"week", "month", "year"})
_YEAR = re.compile("(?:19|20)[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Days:
    """A set of days: a year, a month, a day of the month, a combination of these, or a period before now."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    since: Instant | None = None

    def holds(self, at: Instant) -> bool:
        if self.since is not None:
            return at >= self.since
        if self.day is not None:
            return any(self._matches(at - back * DAY_MS) for back in range(TOLD_WITHIN_DAYS + 1))
        return self._matches(at)

    def _matches(self, at: int) -> bool:
        year, month, day = civil(at)
        asked = ((self.year, year), (self.month, month), (self.day, day))
        return all(wanted is None or wanted == found for wanted, found in asked)


def days_asked(asked: Sequence[str], now: Instant) -> Days | None:
    """The days that a question names, or None."""
    years = [int(word) for word in asked if _YEAR.fullmatch(word)]
    month, day = _month_and_day(asked, has_year=bool(years))
    if years or month:
        return Days(year=years[0] if years else None, month=month, day=day)
    for before, word in zip(("", *asked), asked, strict=False):
        if word in ("today", "yesterday") or (word in _UNITS and before in ("last", "this", "past")):
            reach = _BACK[word] * (2 if before == "last" else 1)
            return Days(since=Instant(now - now % DAY_MS - reach * DAY_MS))
    return None


def _month_and_day(asked: Sequence[str], *, has_year: bool) -> tuple[int | None, int | None]:
    for n, word in enumerate(asked):
        if word in MONTHS:
            beside = [*asked[max(0, n - 1) : n], *asked[n + 1 : n + 2]]
            days = [number for number in map(_day_number, beside) if number]
            if word != "may" or has_year or days:
                return MONTHS.index(word) + 1, days[0] if days else None
    return None, None


def tells_time(said: Sequence[str]) -> bool:
    """Whether a text states when something was or will be."""
    return any(word in TELLING or _YEAR.fullmatch(word) for word in said)


def _day_number(word: str) -> int | None:
    digits = word.rstrip("stndrh")
    is_number = len(digits) <= 2 and digits.isascii() and digits.isdecimal()
    return int(digits) if is_number and 1 <= int(digits) <= 31 else None
