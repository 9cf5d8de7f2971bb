"""Checks the media type of a request body by its header. Pure.

Only `application/json` in UTF-8 is accepted. A browser lets a foreign page send other types, and bodies without a type,
without a preflight request; another charset would change the decoded text.
"""

from holdfast.kernel.errors import UnsupportedMediaType

JSON_TYPE = "application/json"
CHARSETS = frozenset({"utf-8", "utf8"})
SHOWN_CHARS = 80


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
