"""The common SQL of the scripts, rewritten for PostgreSQL. Pure: text in, text out.

Rule 1: nothing inside a string literal, a quoted name or an ordinary comment is touched.
Rule 2: a name has one number, however often it occurs, because PostgreSQL infers a parameter's type from
        all its uses together.
Rule 3: `:now` is not a parameter: it becomes a call, so that the store judges time by its own clock.

PostgreSQL must be able to infer the type of every parameter; where it cannot (`select :x`, `:x is null`,
`:x + :y`) the script writes `cast(:x as int8)`. This module does not know any verb and checks no grammar:
what PostgreSQL refuses, PostgreSQL reports.
"""

import re
from functools import lru_cache
from typing import NamedTuple

NOW_CALL = "holdfast_now()"
STATEMENTS_CACHED_MAX = 1_024  # scripts hold a few hundred constant statements; a built one may be evicted

HINTS = {"lock": "for update", "skip locked": "for update skip locked", "strict": ""}
TYPE_WORDS = {"bytes": "bytea"}  # int8, text and float8 are PostgreSQL's own words

# In this order: what must be passed over, then what is rewritten.
_TOKEN = re.compile(
    r"""
      (?P<passed> '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | :: )
    | /\*\s*(?P<hint> lock | skip\ locked | strict )\s*\*/
    | (?P<comment> /\*.*?\*/ )
    | :(?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | \b(?P<word> bytes )\b
    """,
    re.VERBOSE | re.DOTALL,
)


class Translated(NamedTuple):
    """A statement for PostgreSQL, and the names of its parameters in the order of their numbers."""

    sql: str
    names: tuple[str, ...]


@lru_cache(maxsize=STATEMENTS_CACHED_MAX)
def translate(sql: str) -> Translated:
    """Rewrite one statement of a script: `:name` to `$n`, `:now` to the store's clock, hints to locks."""
    numbers: dict[str, int] = {}

    def rewrite(token: re.Match[str]) -> str:
        if (name := token["name"]) is not None:
            return NOW_CALL if name == "now" else f"${numbers.setdefault(name, len(numbers) + 1)}"
        if (hint := token["hint"]) is not None:
            return HINTS[hint]
        return token[0]

    return Translated(_TOKEN.sub(rewrite, sql), tuple(numbers))


def translate_schema(sql: str) -> str:
    """Rewrite a migration file: type words and hints only. It has no parameters."""

    def rewrite(token: re.Match[str]) -> str:
        if (word := token["word"]) is not None:
            return TYPE_WORDS[word]
        if (hint := token["hint"]) is not None:
            return HINTS[hint]
        return token[0]

    return _TOKEN.sub(rewrite, sql)
