"""Refuses JSON that two parsers could interpret differently. Pure.

Rule 1: an object has each key once. Parsers disagree about which of two values counts, so a proxy or an audit log
        might see another value than the one acted on.
Rule 2: values nest at most `DEPTH_MAX` deep. `NaN` and `Infinity` are not JSON.

This module checks the text only; the decoder checks the fields.
"""

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NoReturn

from holdfast.kernel.errors import DuplicateKey, InvalidJson, InvalidUnicode

DEPTH_MAX = 64
KEY_CHARS_SHOWN = 80
_NO_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"?|[^\[\]{}"]+', re.DOTALL)  # strings, and text without brackets
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def check_json(body: bytes) -> None:
    """Raises `InvalidJson`, `DuplicateKey` and `InvalidUnicode`."""
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX:
        _check_depth(body)
    try:
        json.loads(body.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise InvalidUnicode("the body is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise InvalidJson(f"the body cannot be read: {error}") from error


def _check_depth(body: bytes) -> None:
    brackets = _NO_BRACKET.sub(b"", body)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > DEPTH_MAX:
        raise InvalidJson(f"the body nests more than {DEPTH_MAX} levels deep")


def _pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Check for duplicate keys. Returns nothing, so the parser builds no value."""
    if len(pairs) < 2:
        return
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DuplicateKey(f"the key {key[:KEY_CHARS_SHOWN]!r} is given twice in one object", key=key)
        seen.add(key)


def _constant(name: str) -> NoReturn:
    raise InvalidJson(f"{name} is no JSON value")
