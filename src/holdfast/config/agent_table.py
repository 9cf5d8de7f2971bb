"""Reads the table of one agent into its policy, and checks what its types do not show."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import structs

from holdfast.config.secrets import located
from holdfast.config.tables import SHARING_AGENT, SHARING_PERSON, AgentTable
from holdfast.config.wording import translated, wrong
from holdfast.inbox.access import check_allowed, check_allowed_chat, check_operator
from holdfast.inbox.address import agent_name
from holdfast.kernel.errors import AllowlistNotImmutable, InvalidName

INSTRUCTIONS_BYTES_MAX = 256 * 1024
PERSON = re.compile(r"[\w.-]+", re.ASCII)  # the plain name of a person, as set by `holdfast link`


def read_agent(file: Path, key: str, table: Mapping[str, Any]) -> AgentTable:
    """The table `key`, checked, with the text of its instructions file. Raises `ConfigInvalid`."""
    if not isinstance(table.get("model", ""), str | dict):
        fix = 'it must be a name such as "openai:gpt-5.2" or "practice", or a table'
        raise wrong(file, f"{key}.model", table["model"], fix)
    try:
        read = msgspec.convert(table, AgentTable, strict=True)
    except msgspec.ValidationError as error:
        raise translated(file, key, dict(table), AgentTable, str(error)) from error
    _check_memory(file, key, read)
    for kind in ("memory", "channels", "mcp"):
        for one in getattr(read, kind) or {}:
            check_name(file, f"{key}.{kind}.{one}", one, kind)
    _check_shares(file, key, read)
    _check_zone(file, key, read.expiry.time_zone)
    _check_people(file, key, read)
    return _with_files(file, key, read)


def check_name(file: Path, key: str, name: str, what: str) -> None:
    try:
        agent_name(name, what=what)
    except InvalidName as error:
        raise wrong(file, key, name, f"{error}. {error.hint}") from error


def _check_memory(file: Path, key: str, read: AgentTable) -> None:
    if read.sharing not in (SHARING_PERSON, SHARING_AGENT):
        fix = 'it must be "person" (show each person their own memories) or "agent" (show everyone all memories)'
        raise wrong(file, f"{key}.memory.sharing", read.sharing, fix)
    for name, table in (read.memory or {}).items():
        if name != "sharing" and not isinstance(table, dict):
            raise wrong(file, f"{key}.memory.{name}", table, f"it must be a table, [{key}.memory.{name}]")


def _check_shares(file: Path, key: str, read: AgentTable) -> None:
    shares = read.compression
    if shares.soft >= shares.hard:
        raise wrong(file, f"{key}.compression.soft", shares.soft, f"it must be below hard, which is {shares.hard}")
    if shares.keep >= shares.hard:
        raise wrong(file, f"{key}.compression.keep", shares.keep, f"it must be below hard, which is {shares.hard}")


def _check_zone(file: Path, key: str, name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # unknown, not a name, or a folder of zones
        fix = "the time zone is unknown; use a name such as Europe/Berlin or UTC"
        raise wrong(file, f"{key}.expiry.time_zone", name, fix) from error


def _check_people(file: Path, key: str, read: AgentTable) -> None:
    """People are identified by ids that cannot be transferred to another account."""
    approvers = {one for one in read.approval.approvers if not PERSON.fullmatch(one)}
    lists = (
        ("access.allow", read.access.allow, check_allowed),
        ("access.allow_chats", read.access.allow_chats, check_allowed_chat),
        ("access.operators", read.access.operators, check_operator),
        ("approval.approvers", approvers, check_allowed),
    )
    for inner, entries, check in lists:
        for entry in sorted(entries):
            try:
                check(entry)
            except AllowlistNotImmutable as error:
                what = f"{file}: {key}.{inner}: {error}"
                raise AllowlistNotImmutable(what, file=str(file), key=f"{key}.{inner}", entry=entry) from error


def _with_files(file: Path, key: str, read: AgentTable) -> AgentTable:
    """The table with the text of its instructions file, and with paths relative to the configuration's folder."""
    if isinstance(read.model, dict) and isinstance(read.model.get("api_key_file"), str) and read.model["api_key_file"]:
        path = str(located(file, read.model["api_key_file"]))
        read = structs.replace(read, model={**read.model, "api_key_file": path})
    if read.instructions_file is None:
        return read
    if read.instructions:
        fix = "`instructions` is set as well; keep one of the two"
        raise wrong(file, f"{key}.instructions_file", read.instructions_file, fix)
    try:
        text = _read_text(located(file, read.instructions_file))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: an unknown home folder
        why = getattr(error, "strerror", None) or str(error)
        fix = f"it cannot be read from {file.parent.resolve()}: {why}"
        raise wrong(file, f"{key}.instructions_file", read.instructions_file, fix) from error
    return structs.replace(read, instructions=text)


def _read_text(path: Path) -> str:
    """Raises `OSError`, and `ValueError` for a file that is too large or not UTF-8."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")
    with path.open("rb") as opened:
        raw = opened.read(INSTRUCTIONS_BYTES_MAX + 1)
    if len(raw) > INSTRUCTIONS_BYTES_MAX:
        raise ValueError(f"it is larger than {INSTRUCTIONS_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error
