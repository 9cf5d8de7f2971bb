"""What goes wrong around a tool is told to the model; nothing a model writes or a tool does is ever raised."""

import json
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import InvalidInput, InvalidName
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.kernel.machine import AsyncTasks
from holdfast.tools.toolbox import RESULT_CHARS_MAX, ToolBox
from holdfast.turns.journal import is_storable
from holdfast.turns.tool import ToolContext, ToolOutcome

CONTEXT = ToolContext(
    agent=AgentName("main"), session=SessionId("ses_1"), turn=1, principal=Principal("ada"), call="call_1"
)
MAIN = AgentName("main")


def box(*tools: Any) -> ToolBox:
    made = ToolBox()
    for tool in tools:
        made.add(tool)
    return made


def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


async def greet(name: str, context: ToolContext) -> str:
    return f"hello {name} from {context.principal} ({context.call})"


# --- what the model is offered -----------------------------------------------------------------------------------


def test_a_function_is_offered_with_its_name_description_and_schema():
    (spec,) = box(add).specs(MAIN)
    assert (spec.name, spec.description) == ("add", "Add two numbers.")
    assert spec.parameters["type"] == "object"
    assert spec.parameters["properties"] == {"first": {"type": "integer"}, "second": {"type": "integer", "default": 1}}
    assert spec.parameters["required"] == ["first"]
    assert spec.parameters["additionalProperties"] is False
    assert "$ref" not in json.dumps(spec.parameters)


def test_the_context_is_not_offered_to_the_model():
    (spec,) = box(greet).specs(MAIN)
    assert list(spec.parameters["properties"]) == ["name"]  # type: ignore[call-overload]
    assert spec.description == "greet"


def test_rich_annotations_become_a_schema():
    @dataclass
    class Place:
        city: str

    def find(kind: Literal["cat", "dog"], near: Place, limit: Annotated[int, msgspec.Meta(ge=1)] = 5) -> None:
        """Find."""

    (spec,) = box(find).specs(MAIN)
    assert spec.parameters["properties"]["kind"] == {"enum": ["cat", "dog"]}  # type: ignore[index]
    assert "Place" in spec.parameters["$defs"]  # type: ignore[operator]


def test_a_parameter_without_annotation_takes_anything():
    async def echo(value):
        return value

    assert box(echo).specs(MAIN)[0].parameters["properties"] == {"value": {}}


@pytest.mark.parametrize(
    "tool",
    [lambda *values: None, lambda **values: None, eval("lambda value, /: None")],
    ids=["*values", "**values", "value, /"],
)
def test_only_plain_named_parameters_are_taken(tool):
    with pytest.raises(InvalidInput, match="must take plain named parameters"):
        ToolBox().add(tool, name="tool")


def test_a_parameter_that_json_cannot_carry_is_refused_when_the_tool_is_added():
    def draw(on: type) -> None:
        """Draw."""

    def remember(things: list[str] = ["a"]) -> None:  # noqa: B006
        """Remember."""

    for tool in (draw, remember):
        with pytest.raises(InvalidInput, match=tool.__name__):
            ToolBox().add(tool)


def test_two_tools_of_one_name_and_a_tool_without_a_proper_name_are_refused():
    with pytest.raises(InvalidInput, match="two tools are named 'add'"):
        box(add, add)
    with pytest.raises(InvalidName):
        ToolBox().add(lambda: None)


def test_a_tool_is_repeated_only_when_it_was_declared_idempotent():
    made = box(add)
    made.add(greet, name="hail", idempotent=True)
    assert [made.is_idempotent(name) for name in ("add", "hail", "unknown")] == [False, True, False]


# --- calling -----------------------------------------------------------------------------------------------------


async def test_a_tool_is_called_with_its_arguments_and_defaults():
    made = box(add, greet)
    assert await made.call("add", '{"first": 2}', CONTEXT) == ToolOutcome("3")
    assert await made.call("add", '{"first": 2, "second": 5}', CONTEXT) == ToolOutcome("7")
    assert await made.call("greet", '{"name": "bob"}', CONTEXT) == ToolOutcome("hello bob from ada (call_1)")


async def test_a_tool_without_parameters_may_be_called_with_nothing():
    def ping() -> str:
        return "pong"

    assert await box(ping).call("ping", "", CONTEXT) == ToolOutcome("pong")


@pytest.mark.parametrize(
    "arguments",
    [
        "{",
        "[]",
        "null",
        "two and three",
        "{}",
        '{"first": "two"}',
        '{"first": 1, "third": 3}',
        '{"first": 1, "context": {}}',
        '{"first": ' + "[" * 100_000,
        '{"first": "\ud800"}',
        '{"first": 1e999}',
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(arguments):
    outcome = await box(add).call("add", arguments, CONTEXT)
    assert not outcome.ok
    assert outcome.text.startswith("The arguments of add are not usable: ")


async def test_deeply_nested_arguments_are_told_to_the_model():
    async def echo(value):
        return value

    assert not (await box(echo).call("echo", '{"value": ' + "[" * 100_000, CONTEXT)).ok


async def test_an_unknown_tool_is_told_with_those_that_exist():
    assert await box(add, greet).call("ad", "{}", CONTEXT) == ToolOutcome(
        "There is no tool 'ad'; there are: add, greet.", ok=False, missing=True
    )
    assert "there are: none." in (await ToolBox().call("ad", "{}", CONTEXT)).text


@pytest.mark.parametrize(
    "error", [LookupError("no such cat"), TimeoutError(), RecursionError("deep"), KeyError("\ud800")]
)
async def test_a_failing_tool_is_told_to_the_model(error):
    def fail() -> None:
        raise error

    outcome = await box(fail).call("fail", "{}", CONTEXT)
    assert not outcome.ok
    assert outcome.text.startswith(f"fail failed: {type(error).__name__}: ")


RING: list[Any] = []
RING.append(RING)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        (None, "null"),
        ({"cats": [1, 2]}, '{"cats":[1,2]}'),
        (2**70, str(2**70)),
        (CONTEXT.session, "ses_1"),
        (object, "<class 'object'>"),
        ("\ud800", "?"),
        (RING, "[[...]]"),
        (float("nan"), "null"),
    ],
    ids=repr,
)
async def test_whatever_a_tool_gives_back_becomes_text(result, text):
    outcome = await box_returning(result).call("give", "{}", CONTEXT)
    assert outcome.ok
    assert outcome.text.strip('"') == text


def box_returning(result: object) -> ToolBox:
    def give() -> object:
        return result

    return box(give)


async def test_a_result_is_cut_at_its_limit():
    outcome = await box_returning("x" * (RESULT_CHARS_MAX + 1)).call("give", "{}", CONTEXT)
    assert len(outcome.text) == RESULT_CHARS_MAX


@given(st.text(st.characters()), st.text(st.characters()))
async def test_no_name_and_no_arguments_are_ever_raised_about(name, arguments):
    assert not (await box(add).call(name, arguments, CONTEXT)).ok
    outcome = await box(add).call("add", arguments, CONTEXT)
    assert not outcome.ok
    assert is_storable(outcome.text)


async def test_a_plain_function_runs_in_a_thread_and_delays_no_other_call():
    ran_in = []

    def slow() -> str:
        ran_in.append(threading.get_ident())
        return "done"

    made = ToolBox(AsyncTasks())
    made.add(slow)
    assert await made.call("slow", "{}", CONTEXT) == ToolOutcome("done")
    assert ran_in != [threading.get_ident()]


async def test_a_coroutine_function_stays_on_the_event_loop():
    ran_in = []

    async def quick() -> str:
        ran_in.append(threading.get_ident())
        return "done"

    made = ToolBox(AsyncTasks())
    made.add(quick)
    assert await made.call("quick", "{}", CONTEXT) == ToolOutcome("done")
    assert ran_in == [threading.get_ident()]


async def test_a_failure_told_at_length_is_cut_and_one_that_cannot_be_told_is_named():
    def rambles() -> None:
        raise ValueError("x" * (RESULT_CHARS_MAX * 2))

    class Mute(Exception):
        def __str__(self) -> str:
            raise KeyError

    def mumbles() -> None:
        raise Mute

    long = await box(rambles).call("rambles", "{}", CONTEXT)
    assert (long.ok, len(long.text)) == (False, RESULT_CHARS_MAX)
    assert (await box(mumbles).call("mumbles", "{}", CONTEXT)).text == "mumbles failed: Mute"
