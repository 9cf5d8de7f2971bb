"""The toolbox: Python functions as tools. An error inside a function becomes an outcome for the model."""

import inspect
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from holdfast.inbox.address import agent_name
from holdfast.kernel import log
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ports import Tasks
from holdfast.turns.journal import storable
from holdfast.turns.model import ToolSpec
from holdfast.turns.tool import ToolContext, ToolOutcome, Tools, Unreliable, no_such_tool, origin_of

RESULT_CHARS_MAX = 64_000


@dataclass(frozen=True, slots=True)
class _Tool:
    spec: ToolSpec
    call: Callable[..., Any]
    arguments: type[msgspec.Struct]
    wants_context: bool
    idempotent: bool
    dangerous: bool
    origin: Hashable


class ToolBox:
    """Implements `Tools` and `Traceable`. Arguments are checked against the function's annotations before it runs."""

    def __init__(self, tasks: Tasks | None = None) -> None:
        """With `tasks`, plain functions run in threads, so that a slow one does not block the event loop."""
        self._tasks = tasks
        self._tools: dict[str, _Tool] = {}

    def add(
        self,
        call: Callable[..., Any],
        *,
        name: str | None = None,
        idempotent: bool | None = None,
        dangerous: bool | None = None,
        description: str | None = None,
        origin: Hashable | None = None,
    ) -> None:
        """Offer a function. `idempotent` says that a call of unknown outcome may be repeated, `dangerous` that a human
        has to approve each call. Both default to the function's attributes of these names.

        `origin` is equal for two agents that have the same tool; it defaults to the function.
        """
        name = agent_name(name or call.__name__, what="tool")
        if name in self._tools:
            raise InvalidInput(f"two tools are named {name!r}; rename one", tool=name)
        arguments, wants_context = _arguments(name, call)
        spec = ToolSpec(
            name=name,
            description=description or inspect.getdoc(call) or name,
            parameters=_schema(name, arguments),
        )
        repeatable = bool(getattr(call, "idempotent", False)) if idempotent is None else idempotent
        risky = bool(getattr(call, "dangerous", False)) if dangerous is None else dangerous
        self._tools[name] = _Tool(spec, call, arguments, wants_context, repeatable, risky, origin or ("function", call))

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        del agent  # every agent has every tool of the box
        return tuple(tool.spec for tool in self._tools.values())

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        del agent
        tool = self._tools.get(name)
        return None if tool is None else tool.origin

    def is_idempotent(self, name: str) -> bool:
        tool = self._tools.get(name)
        return tool is not None and tool.idempotent

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        del agent
        tool = self._tools.get(name)
        return tool is not None and tool.dangerous

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        tool = self._tools.get(name)
        if tool is None:
            return no_such_tool(name, self.specs(context.agent))
        try:
            parsed = msgspec.json.decode(arguments or "{}", type=tool.arguments)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            return ToolOutcome(f"The arguments of {name} are not usable: {error}", ok=False)
        values = msgspec.structs.asdict(parsed)
        if tool.wants_context:
            values["context"] = context
        return await self._run(tool, values)

    async def _run(self, tool: _Tool, values: dict[str, Any]) -> ToolOutcome:
        try:
            work = partial(tool.call, **values)
            if self._tasks is None or inspect.iscoroutinefunction(tool.call):
                result = work()
            else:
                result = await self._tasks.in_thread(work)
            if isinstance(result, Awaitable):
                result = await result
            if isinstance(result, ToolOutcome):
                return replace(result, text=storable(result.text)[:RESULT_CHARS_MAX])
            return ToolOutcome(storable(_text(result))[:RESULT_CHARS_MAX])
        except Exception as error:  # noqa: BLE001 - foreign code: the model is told of its failure
            log.warning("model.failed", task="tool", tool=tool.spec.name, why=type(error).__name__)
            return ToolOutcome(f"{tool.spec.name} failed: {_described(error)}"[:RESULT_CHARS_MAX], ok=False)


def _described(error: Exception) -> str:
    """The class and, if it can be formatted, the text of an error."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - foreign code
        return kind


def _text(result: object) -> str:
    """A string unchanged, other values as JSON, and values that JSON cannot express as `str`."""
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result, enc_hook=str).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return str(result)


def _arguments(name: str, call: Callable[..., Any]) -> tuple[type[msgspec.Struct], bool]:
    """A struct of the function's parameters, and whether it has a parameter `context` for the `ToolContext`."""
    fields: list[Any] = []
    wants_context = False
    for parameter in inspect.signature(call, eval_str=True).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            raise InvalidInput(f"tool {name!r} must take plain named parameters, not {parameter}", tool=name)
        if parameter.name == "context":
            wants_context = True
            continue
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        has_default = parameter.default is not parameter.empty
        fields.append((parameter.name, kind, parameter.default) if has_default else (parameter.name, kind))
    fields.sort(key=len)  # a struct needs fields without a default first
    try:
        made = msgspec.defstruct(f"{name}_arguments", fields, forbid_unknown_fields=True, kw_only=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"tool {name!r} has an unsupported parameter: {error}", tool=name) from error
    return made, wants_context


def _schema(name: str, arguments: type[msgspec.Struct]) -> dict[str, object]:
    """The JSON schema without its top-level `$ref`, as model vendors require it."""
    try:
        schema = msgspec.json.schema(arguments)
    except TypeError as error:
        raise InvalidInput(f"tool {name!r} has a parameter that JSON cannot express: {error}", tool=name) from error
    reference = schema.get("$ref", "")
    definitions = schema.get("$defs", {})
    found = definitions.pop(reference.rsplit("/", 1)[-1], schema)
    if definitions:
        found["$defs"] = definitions
    return dict(found)


class JoinedTools:
    """Several tool sets as one. If two have a tool of the same name, that of the first set is used.

    Implements `Tools`, `Unreliable` and `Traceable`.
    """

    def __init__(self, *sets: Tools) -> None:
        inner = [some.sets if isinstance(some, JoinedTools) else (some,) for some in sets]
        self.sets: tuple[Tools, ...] = tuple(chain.from_iterable(inner))

    def specs(self, agent: AgentName) -> tuple[ToolSpec, ...]:
        found: dict[str, ToolSpec] = {}
        for spec in (spec for some in self.sets for spec in some.specs(agent)):
            found.setdefault(spec.name, spec)
        return tuple(found.values())

    def is_idempotent(self, name: str) -> bool:
        return self._owner(name, AgentName("")).is_idempotent(name)

    def needs_approval(self, agent: AgentName, name: str) -> bool:
        return self._owner(name, agent).needs_approval(agent, name)

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolOutcome:
        """Each set knows only its own tools, so the outcome for an unknown tool is made here."""
        outcome = await self._owner(name, context.agent).call(name, arguments, context)
        return no_such_tool(name, self.specs(context.agent), self.outages()) if outcome.missing else outcome

    def outages(self) -> tuple[str, ...]:
        return tuple(outage for some in self.sets if isinstance(some, Unreliable) for outage in some.outages())

    def origin(self, agent: AgentName, name: str) -> Hashable | None:
        return origin_of(self._owner(name, agent), agent, name)

    def _owner(self, name: str, agent: AgentName) -> Tools:
        """The set that has the tool; the first one for an unknown tool."""
        owners = (some for some in self.sets if any(spec.name == name for spec in some.specs(agent)))
        return next(owners, self.sets[0])
