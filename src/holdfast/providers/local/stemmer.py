"""Stemming of English words: Martin Porter's algorithm of 1980, after a table of irregular forms.

Rule 1: the function is pure and total: any string has a stem, and one that is not an English word hardly changes.
Rule 2: a change here changes the content of every index, so it needs a new version of the index file.
"""

from functools import lru_cache

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
