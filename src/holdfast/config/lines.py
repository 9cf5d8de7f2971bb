"""The line of each key of a TOML text, which Python's parser does not tell.

The text is valid TOML. Keys inside an inline table have the line of the setting that contains it.
"""

import re
import tomllib

_NAME = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')"
_PATH = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_HEADER = re.compile(rf"[ \t]*\[{{1,2}}[ \t]*(?P<path>{_PATH})[ \t]*\]")
_SETTING = re.compile(rf"[ \t]*(?P<path>{_PATH})[ \t]*=")
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[{]|[\]}]|\n",
    re.DOTALL,
)


def lines_of(text: str) -> dict[str, int]:
    """The first line of every table and setting, by its key with dots."""
    text = text.replace("\r\n", "\n")
    found: dict[str, int] = {}
    table: tuple[str, ...] = ()
    at, line = 0, 1
    while at < len(text):
        header, setting = _HEADER.match(text, at), _SETTING.match(text, at)
        if header is not None:
            table = _parts(header["path"])
            _note(found, table, line)
        elif setting is not None:
            _note(found, (*table, *_parts(setting["path"])), line)
        start = header.end() if header else setting.end() if setting else at
        end = _end_of_line(text, start)
        line += text.count("\n", at, end)
        at = end
    return found


def _note(found: dict[str, int], parts: tuple[str, ...], line: int) -> None:
    for n in range(1, len(parts) + 1):
        found.setdefault(".".join(parts[:n]), line)


def _parts(path: str) -> tuple[str, ...]:
    """The names of a dotted key, without their quotes."""
    table = tomllib.loads(f"{path} = 0")
    names = []
    inner: object = table
    while isinstance(inner, dict):
        (name,) = inner
        names.append(name)
        inner = inner[name]
    return tuple(names)


def _end_of_line(text: str, start: int) -> int:
    """The start of the line after a value, which may contain brackets and texts of several lines."""
    depth, at = 0, start
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        match token[0][0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if depth <= 0:
                return at
    return len(text)
