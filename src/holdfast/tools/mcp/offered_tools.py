"""The tools of a server that are offered to a model, under stable names.

A tool's name is `<server>_<tool>` and depends on the configuration alone: if it depended on which servers are up, a
call after a restart could reach another server than the model meant.
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
    tool: str  # the server's own name
    spec: ToolSpec
    idempotent: bool
    dangerous: bool


def offered_tools(
    settings: McpSettings, listed: Sequence[tuple[str, str, Mapping[str, object]]]
) -> Mapping[str, OfferedTool]:
    """The offered tools by the name that the model uses. A tool that cannot be offered is logged and left out."""
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
    """A name that every vendor accepts. A changed or shortened name gets a hash, so that it stays unique.

    So does a name that could belong to another server: `hub_open` of `git` if there is a server `git_hub`.
    """
    plain = _UNUSUAL.sub("_", f"{server}_{tool}")
    is_doubtful = any(len(one) > len(server) and plain.startswith(f"{one}_") for one in others)
    if plain == f"{server}_{tool}" and len(plain) <= NAME_CHARS_MAX and not is_doubtful:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: NAME_CHARS_MAX - 9]}_{mark}"


def _fault(schema: Mapping[str, object], offered: int) -> str:
    """Why a tool with this schema cannot be offered; empty if it can."""
    if offered >= TOOLS_MAX:
        return f"more than {TOOLS_MAX} tools; choose some with `tools`"
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
        return "its schema does not describe an object"
    try:
        size = len(msgspec.json.encode(schema))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return "its schema cannot be written as JSON"
    return f"its schema has {size} bytes; the limit is {SCHEMA_BYTES_MAX}" if size > SCHEMA_BYTES_MAX else ""
