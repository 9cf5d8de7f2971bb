"""What of a server's tools is offered to a model: those that were chosen, under names that never change their meaning.

A tool's name is `<server>_<tool>`, by what is configured alone: a name that depended on which other servers are up
would, after a restart, send a call to another server than the model meant.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.kernel import log
from holdfast.tools.mcp.settings import McpSettings
from holdfast.turns.journal import storable
from holdfast.turns.model import ToolSpec

NAME_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 4_000
SCHEMA_BYTES_MAX = 32 * 1024
TOOLS_MAX = 128
_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    tool: str  # the server's own name of it
    spec: ToolSpec
    idempotent: bool
    dangerous: bool


def offers(settings: McpSettings, listed: Sequence[tuple[str, str, Mapping[str, object]]]) -> Mapping[str, OfferedTool]:
    """By the name that the model uses. What cannot be offered is left out, and logged."""
    found: dict[str, OfferedTool] = {}
    for tool, description, schema in listed:
        if not settings.is_wanted(tool):
            continue
        name = offered_name(settings.server, tool, settings.others)
        fault = "two tools have this name" if name in found else _fault(schema, len(found))
        if fault:
            log.warning("mcp.skipped", server=settings.server, tool=name, why=fault)
            continue
        text = storable(description)[:DESCRIPTION_CHARS_MAX]
        spec = ToolSpec(name=name, description=text, parameters=dict(schema))
        found[name] = OfferedTool(tool, spec, tool in settings.idempotent, settings.is_dangerous(tool))
    return found


def offered_name(server: str, tool: str, others: Collection[str] = ()) -> str:
    """A name that every vendor takes; one that had to be shortened stays unlike every other.

    So does one that could be a tool of another server: `hub_open` of `git` where there is a server `git_hub`.
    """
    plain = _UNUSUAL.sub("_", f"{server}_{tool}")
    is_doubtful = any(len(one) > len(server) and plain.startswith(f"{one}_") for one in others)
    if plain == f"{server}_{tool}" and len(plain) <= NAME_CHARS_MAX and not is_doubtful:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: NAME_CHARS_MAX - 9]}_{mark}"


def _fault(schema: Mapping[str, object], offered: int) -> str:
    """Why a tool with this schema cannot be offered; empty when it can."""
    if offered >= TOOLS_MAX:
        return f"more than {TOOLS_MAX} tools; choose some with `tools`"
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
        return "its schema is not that of an object"
    try:
        size = len(msgspec.json.encode(schema))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return "its schema cannot be written as JSON"
    return f"its schema has {size} bytes; {SCHEMA_BYTES_MAX} is the most" if size > SCHEMA_BYTES_MAX else ""
