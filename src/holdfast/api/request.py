"""Request parsing: a body of limited size in strict UTF-8 JSON, a query with known parameters only, and the origin.

The origin of a message is a human, or a program that passes on an agent's reply (D12).
Rule 1: a message sent with a robot's token comes from a program. So does a message with a hop above zero, with any
        token.
Rule 2: a token with the scope `admin` may use every command, like a named operator.
Rule 3: a program that passes a reply on sends the `hop` that came with it, so a loop of agents ends at `hops_max`.
"""

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta
from starlette.requests import Request

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.caller import Caller
from holdfast.api.endpoint import NAMES, HttpCall, Param
from holdfast.api.errors import RequestTimeout
from holdfast.api.limits.admission import OpenRequest
from holdfast.inbox.address import PART_CHARS_MAX, agent_name, check_part
from holdfast.inbox.message import Origin
from holdfast.kernel.errors import InvalidInput, InvalidJson, InvalidUnicode, MessageTooLarge
from holdfast.kernel.json_body import check_json, check_json_type
from holdfast.sessions.command_rights import Rank

BODY_WAIT_MS = 30_000
NUMBER_DIGITS_MAX = 15
FIELDS_MAX = 16
HOP_HEADER = "X-Holdfast-Hop"
Hop = Annotated[int, Meta(ge=0, le=10**15 - 1)]
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)

T = TypeVar("T")


def check_content_type(request: Request) -> None:
    """Raises `UnsupportedMediaType` if the head announces a body that is not JSON in UTF-8."""
    if "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0":
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


def read_query(request: Request, known: Mapping[str, str | Param]) -> dict[str, Any]:
    """The value of every known parameter. A parameter that is not known, or is given twice, is an error."""
    given = _given(request, known)
    params = {name: Param(said) if isinstance(said, str) else said for name, said in known.items()}
    return {name: _value(name, given.get(name, ""), param) for name, param in params.items()}


def _given(request: Request, known: Collection[str]) -> Mapping[str, str]:
    if not request.scope["query_string"]:
        return {}
    raw = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except UnicodeDecodeError as error:
        raise InvalidUnicode("the query is not UTF-8") from error
    except ValueError as error:
        raise InvalidInput(f"the query has more than {FIELDS_MAX} parameters") from error
    values = dict(pairs)
    unknown = sorted(set(values) - set(known))
    if unknown:
        wanted = ", ".join(sorted(known)) or "none"
        raise InvalidInput(f"unknown parameter {unknown[0][:80]!r}; known are: {wanted}")
    if len(pairs) != len(values):
        raise InvalidInput("a parameter is given twice")
    return values


def _value(name: str, given: str, param: Param) -> object:
    if not given:
        value = param.default
    elif param.schema.get("type") == "integer":
        value = _number(name, given, param)
    else:
        value = _text(name, given, param.schema)
    return value if param.parse is None else param.parse(value)


def _text(name: str, given: str, schema: Mapping[str, Any]) -> str:
    """The text; it is checked as an id or a name unless it has a schema."""
    if not schema:
        return agent_name(given, what=name) if name in NAMES else check_part(name, given)
    most: int = schema.get("maxLength", PART_CHARS_MAX)
    if len(given) > most:
        raise InvalidInput(f"{name} has {len(given)} characters; the limit is {most}")
    return given


def _number(name: str, given: str, param: Param) -> int:
    value = whole_number(name, given)
    least, highest = param.schema.get("minimum", 0), param.schema.get("maximum", value)
    if not least <= value <= highest:
        raise InvalidInput(f"{name} must be a whole number from {least} to {highest}, not {given[:80]}")
    return value if param.most is None else min(value, param.most)


def whole_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        raise InvalidInput(f"{name} must be a whole number, not {text[:80]!r}")
    return int(text)


def origin_of(call: HttpCall) -> Origin:
    """The origin of a request. Raises `InvalidInput` if the hop header is not a number."""
    told = call.request.headers.get(HOP_HEADER)
    return origin_by(call.caller, 0 if told is None else whole_number(f"the header {HOP_HEADER}", told))


def origin_by(caller: Caller, hop: int) -> Origin:
    rank = Rank.OPERATOR if caller.token.may(Scope.ADMIN) else Rank.MEMBER
    return Origin(human=not caller.token.robot and hop == 0, hop=hop, token=caller.token.id, rank=rank)
