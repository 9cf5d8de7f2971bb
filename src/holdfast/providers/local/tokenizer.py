"""Tokenizing a text for search, the same way for indexed lines and for questions: words, and their stems.

Rule 1: a word is a run of letters and digits, without accents and in lower case. Scripts that are written without
        spaces are split into overlapping pairs of characters.
Rule 2: stop words are left out; the rest is reduced to stems.
Rule 3: any string is accepted; other characters (NUL, a lone surrogate, punctuation) are skipped.
Rule 4: stemming is Martin Porter's algorithm of 1980, after a table of irregular forms. Any string has a stem, and one
        that is not an English word hardly changes.
Rule 5: a change here changes the content of every index, so it needs a new version of the index file.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

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
