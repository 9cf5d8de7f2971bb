"""Request parsing: a body of limited size in strict UTF-8 JSON, and a query with known parameters only."""

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from holdfast.api.endpoint import NAMES, Param
from holdfast.api.errors import RequestTimeout
from holdfast.api.limits.admission import OpenRequest
from holdfast.inbox.address import PART_CHARS_MAX, agent_name, check_part
from holdfast.kernel.errors import InvalidInput, InvalidJson, InvalidUnicode, MessageTooLarge
from holdfast.kernel.json_check import check_json
from holdfast.kernel.media_type import check_json_type

BODY_WAIT_MS = 30_000
NUMBER_DIGITS_MAX = 15
FIELDS_MAX = 16
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)

T = TypeVar("T")


def has_body(request: Request) -> bool:
    """Whether the head announces a body."""
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


def check_content_type(request: Request) -> None:
    """Raises `UnsupportedMediaType` if the head announces a body that is not JSON in UTF-8."""
    if has_body(request):
        check_json_type(", ".join(request.headers.getlist("content-type")))


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. Raises `MessageTooLarge` once the body exceeds the limit, regardless of the announced length.

    No byte is read before memory for the body is reserved. Raises the errors of `OpenRequest.hold`.
    """
    announced = request.headers.get("content-length", "0")
    length = int(announced[:20]) if announced.isascii() and announced.isdigit() else 0
    if length > bytes_max:
        raise _too_large(bytes_max)
    opened: OpenRequest = request.scope["opened"]
    await opened.hold(bytes_max if "transfer-encoding" in request.headers else length)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WAIT_MS / 1000):
            async for chunk in request.stream():
                body += chunk
                if len(body) > bytes_max:
                    raise _too_large(bytes_max)
    except TimeoutError as error:
        raise RequestTimeout(f"the body did not arrive within {BODY_WAIT_MS} ms") from error
    finally:
        opened.read(len(body))
    return bytes(body)


def _too_large(bytes_max: int) -> MessageTooLarge:
    return MessageTooLarge(f"the body is larger than {bytes_max} bytes", limit=bytes_max)


def decode(body: bytes, shape: type[T]) -> T:
    """The body as a `shape`. The error names the field that is missing, unknown or of the wrong type."""
    try:
        found = msgspec.json.decode(body, type=shape, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the body is not acceptable: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidUnicode("the body is not UTF-8") from error
    except (msgspec.DecodeError, RecursionError) as error:
        if has_lone_surrogate(body):
            raise InvalidUnicode("the body has a lone surrogate") from error
        raise InvalidJson(f"the body cannot be read: {error}") from error
    check_json(body)
    return found


def has_lone_surrogate(body: bytes) -> bool:
    """Whether an escape names one half of a surrogate pair without the other half."""
    second_at = -1  # where the second half must begin
    for found in _ESCAPE.finditer(body):
        unit = int(found[1], 16) if found[1] else 0
        is_second, is_due = 0xDC00 <= unit <= 0xDFFF, found.start() == second_at
        if is_second != is_due or (second_at != -1 and not is_due):
            return True
        second_at = found.end() if 0xD800 <= unit <= 0xDBFF else -1
    return second_at != -1


class QueryParameters:
    """The parameters of a query. A parameter that the route does not know is an error."""

    def __init__(self, request: Request, known: Collection[str] | Mapping[str, str | Param]) -> None:
        self._known = known if isinstance(known, Mapping) else {}
        self._values: dict[str, str] = {}
        if not request.scope["query_string"]:
            return
        raw = request.scope["query_string"].decode("latin-1")
        try:
            pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
        except UnicodeDecodeError as error:
            raise InvalidUnicode("the query is not UTF-8") from error
        except ValueError as error:
            raise InvalidInput(f"the query has more than {FIELDS_MAX} parameters") from error
        self._values = dict(pairs)
        unknown = sorted(set(self._values) - set(known))
        if unknown:
            wanted = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"unknown parameter {unknown[0][:80]!r}; known are: {wanted}")
        if len(pairs) != len(self._values):
            raise InvalidInput("a parameter is given twice")

    def text(self, name: str) -> str | None:
        """The value; None if it is missing or empty. It is checked as an id or a name unless it has a schema."""
        value = self._values.get(name) or None
        if value is None:
            return None
        schema = self._schema(name)
        if not schema:
            return agent_name(value, what=name) if name in NAMES else check_part(name, value)
        most: int = schema.get("maxLength", PART_CHARS_MAX)
        if len(value) > most:
            raise InvalidInput(f"{name} has {len(value)} characters; the limit is {most}")
        return value

    def number(self, name: str, default: int, *, most: int | None = None) -> int:
        """A whole number within its schema. A number above `most` becomes `most`."""
        given = self._values.get(name, "")
        if not given:
            return default
        value, schema = whole_number(name, given), self._schema(name)
        least, highest = schema.get("minimum", 0), schema.get("maximum", value)
        if not least <= value <= highest:
            raise InvalidInput(f"{name} must be a whole number from {least} to {highest}, not {given[:80]}")
        return value if most is None else min(value, most)

    def _schema(self, name: str) -> Mapping[str, Any]:
        known = self._known.get(name)
        return known.schema if isinstance(known, Param) else {}


def whole_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        raise InvalidInput(f"{name} must be a whole number, not {text[:80]!r}")
    return int(text)
