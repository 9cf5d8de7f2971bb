"""Error messages about a configuration: the file, the key, its value and the correction.

A value is shown as written in the file unless it may be a secret, since a misspelt key can hold one.
"""

import difflib
import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigInvalid

SHOWN_CHARS_MAX = 80
SECRET_CHARS_MIN = 20
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?\Z", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]*)`(?P<rest>.*?)(?:, got `(?P<got>[^`]*)`)?", re.DOTALL)
_BARE = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_WORDS = {
    "array": "a list in brackets",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "a text in quotes",
}
_EXAMPLES = {
    "context_tokens": "128000",
    "daily_spend_usd": "5.0",
    "idle_minutes": "60",
    "port": "7420",
    "public_hosts": '["chat.example.org"]',
    "tools": '["memory", "recall"]',
    "trusted_proxies": '["10.0.0.0/8"]',
}
_AT = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)\Z")
_SECRET_KEY = re.compile(r"token|secret|password|passwd|credential|key", re.IGNORECASE)
_SECRET_VALUE = re.compile(rf"(?=.*\d)\S{{{SECRET_CHARS_MIN},}}", re.DOTALL)


def wrong(file: Path, key: str, value: object, fix: str) -> ConfigInvalid:
    return ConfigInvalid(f"{file}: {key[:400]} = {shown(key, value)}: {fix}", file=str(file), key=key)


def shown(key: str, value: object) -> str:
    """The value, shortened; hidden if it may be a secret."""
    last = key.rpartition(".")[2]
    named = _SECRET_KEY.search(last) and not last.endswith(("_env", "_file", "_tokens"))
    if isinstance(value, str) and (named or _SECRET_VALUE.fullmatch(value)):
        return "(not shown)"
    return msgspec.json.encode(_without_secrets(value), enc_hook=str).decode()[:SHOWN_CHARS_MAX]


def _without_secrets(value: Any) -> Any:  # noqa: ANN401 - any TOML value
    if isinstance(value, dict):
        return {key: "…" if isinstance(one, str) else _without_secrets(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_secrets(one) for one in value]
    return value


def not_toml(file: Path, raw: bytes, error: Exception) -> ConfigInvalid:
    """The error for a file that is not TOML, with line and column."""
    if isinstance(error, UnicodeDecodeError):
        before = raw[: error.start]
        line, column, what = before.count(b"\n") + 1, error.start - before.rfind(b"\n"), "the text is not UTF-8"
    elif found := _AT.search(str(error)):
        line, column, what = int(found["line"]), int(found["column"]), str(error)[: found.start()]
    else:
        lines = raw.splitlines() or [b""]
        line, column, what = len(lines), len(lines[-1]) + 1, str(error).removesuffix(" (at end of document)")
    where = f"{file}, line {line}, column {column}"
    return ConfigInvalid(f"{where}: {what[:200]}; the file must be TOML in UTF-8", file=str(file), line=line)


def translated(file: Path, key: str, table: dict[str, Any], shape: type[Struct], message: str) -> ConfigInvalid:
    """msgspec's error message as ours, with the key and the value."""
    found = _PLACE.match(message)
    what, path = (found["what"], found["path"]) if found else (message, None)
    unknown = _UNKNOWN.match(what)
    parts = [part for part in re.split(r"\.|\[\.\.\.\]\.?", path or "") if part]
    if unknown:
        parts.append(unknown["name"])
    value: Any = table
    for part in parts:
        value = _inside(value, part)
    if unknown:
        fix = f"unknown key; {suggestion(parts[-1], _shape_of(shape, parts[:-1]).__struct_fields__)}"
    else:
        choices = _choices(_type_of(shape, parts))
        fix = f"it must be one of {', '.join(choices)}" if choices else in_words(what, ".".join([key, *parts]), value)
        near = difflib.get_close_matches(str(value), choices, n=1)
        fix += f"; did you mean {near[0]}?" if near else ""
    return wrong(file, ".".join([key, *parts]), value, fix)


def in_words(what: str, key: str, value: object) -> str:
    """msgspec's message about a type, in words and with an example for some keys."""
    found = _EXPECTED.fullmatch(what)
    if found is None:
        return what[:1].lower() + what[1:]
    kinds = [kind for kind in found["kinds"].split(" | ") if kind != "null"]
    if kinds == ["object"]:
        return f"it must be a table: {_as_table(key, value)}"
    words = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
    last = key.rpartition(".")[2]
    example = f", such as {last} = {_EXAMPLES[last]}" if found["got"] and last in _EXAMPLES else ""
    return f"it must be {words}{found['rest']}{example}"


def _as_table(key: str, value: object) -> str:
    """How to write a list of names, or a name with a plain value, as tables."""
    names = list(value) if isinstance(value, list | dict) else [value]
    words = [one for one in names if isinstance(one, str) and key.endswith((".memory", ".channels", ".mcp"))]
    inner = [one for one in words if _BARE.fullmatch(one) and not _SECRET_VALUE.fullmatch(one)]
    return f"write {' and '.join(f'[{key}.{one}]' for one in inner[:3])}" if inner else f"write [{key}]"


def suggestion(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant, and every valid name."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"{f'did you mean {near[0]}? ' if near else ''}valid keys are {', '.join(names)}"


def _inside(value: Any, part: str) -> Any:  # noqa: ANN401 - any TOML value
    name, _, index = part.partition("[")
    inner = value.get(name, value) if isinstance(value, dict) else value
    number = index.rstrip("]")
    if isinstance(inner, list) and number.isdigit() and int(number) < len(inner):
        return inner[int(number)]
    return inner


def _shape_of(shape: type[Struct], parts: Iterable[str]) -> type[Struct]:
    """The struct of a table inside another one."""
    for part in parts:
        inner = _type_of(shape, [part])
        if isinstance(inner, type) and issubclass(inner, Struct):
            shape = inner
    return shape


def _type_of(shape: type[Struct], parts: list[str]) -> object:
    """The type of a key; None if it is unknown."""
    if not parts:
        return None
    shape = _shape_of(shape, parts[:-1])
    name, _, index = parts[-1].partition("[")
    types = {one.name: one.type for one in msgspec.structs.fields(shape)}
    kind = types.get(name)
    return next(iter(get_args(_plain(kind))), None) if index else kind


def _plain(kind: object) -> object:
    """A type without its `| None`."""
    if get_origin(kind) in (Union, UnionType):
        return next(one for one in get_args(kind) if one is not type(None))
    return kind


def _choices(kind: object) -> list[str]:
    """The values of a key that accepts only certain words."""
    kind = _plain(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(one.value) for one in kind]
    return [str(one) for one in get_args(kind)] if get_origin(kind) is Literal else []
