"""Refuses a request body that is not JSON, or is JSON that two parsers could interpret differently. Pure.

Rule 1: the type is `application/json` in UTF-8. A browser lets a foreign page send other types, and bodies without a
        type, without a preflight request; another charset would change the decoded text.
Rule 2: an object has each key once. Parsers disagree about which of two values counts, so a proxy or an audit log
        might see another value than the one acted on.
Rule 3: values nest at most `DEPTH_MAX` deep. `NaN` and `Infinity` are not JSON.

This module checks the text only; the decoder checks the fields.
"""

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NoReturn

from holdfast.kernel.errors import DuplicateKey, InvalidJson, InvalidUnicode, UnsupportedMediaType

JSON_TYPE = "application/json"
CHARSETS = frozenset({"utf-8", "utf8"})
DEPTH_MAX = 64
SHOWN_CHARS = 80
_NO_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"?|[^\[\]{}"]+', re.DOTALL)  # strings, and text without brackets
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def check_json_type(header: str) -> None:
    """Raise `UnsupportedMediaType` unless the type is JSON. `header` is the whole value; several are joined by ", "."""
    media_type, *parameters = header.split(";")
    if media_type.strip().lower() != JSON_TYPE:
        told = repr(header[:SHOWN_CHARS]) if header.strip() else "no Content-Type"
        raise UnsupportedMediaType(f"the body has {told}; this takes {JSON_TYPE}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in CHARSETS:
            raise UnsupportedMediaType(f"the body has the charset {value.strip()[:SHOWN_CHARS]!r}; this takes utf-8")


def check_json(body: bytes) -> None:
    """Raises `InvalidJson`, `DuplicateKey` and `InvalidUnicode`."""
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX:
        brackets = _NO_BRACKET.sub(b"", body)
        if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > DEPTH_MAX:
            raise InvalidJson(f"the body nests more than {DEPTH_MAX} levels deep")
    try:
        json.loads(body.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise InvalidUnicode("the body is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise InvalidJson(f"the body cannot be read: {error}") from error


def _pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Check for duplicate keys. Returns nothing, so the parser builds no value."""
    if len(pairs) < 2:
        return
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DuplicateKey(f"the key {key[:SHOWN_CHARS]!r} is given twice in one object", key=key)
        seen.add(key)


def _constant(name: str) -> NoReturn:
    raise InvalidJson(f"{name} is no JSON value")
