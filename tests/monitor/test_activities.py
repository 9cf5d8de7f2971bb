"""The promise: a real turn leaves a record of each request to a model and each tool call, with its outcome and tokens,
and no word of anybody; it costs no transaction of its own.

Rules: R40, D36.
"""

from holdfast.kernel.errors import ModelFailed
from holdfast.kernel.vendor_error import VendorError
from holdfast.monitor.trace_sql import read_trace
from holdfast.turns.activity import UNKNOWN_TOOL, ActivityKind
from holdfast.turns.turn import Usage
from tests.support.fakes import Gate, Process, ScriptedModel, agents, calls, raises, says, soon, stands_at

SECRET = "marmalade"


async def activities(runtime, message):
    return (await runtime.db.read(read_trace(message))).activities


async def asked(runtime, text, **more):
    message = await runtime.send("c", text, id="1", **more)
    await soon(runtime.reply_to(message))
    return message


async def test_a_plain_turn_is_one_request_with_the_parts_of_its_context(tmp_path):
    model = ScriptedModel(says("hi", usage=Usage(tokens_in=11, tokens_out=3)))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        (done,) = await activities(runtime, await asked(runtime, "hello"))
        assert (done.kind, done.outcome) == (ActivityKind.MODEL, "answered")
        assert (done.tokens_in, done.tokens_out) == (11, 3)
        assert done.detail["parts"]["conversation"] > 0
        assert done.ended_at >= done.started_at


async def test_each_request_and_each_tool_call_is_on_record_without_words(tmp_path):
    def look(where: str) -> str:
        return f"a cat, {SECRET}, in the {where}"

    model = ScriptedModel(calls(f'look {{"where": "{SECRET}"}}', "look", f"{SECRET}_tool"), says(f"it is {SECRET}"))
    async with await Process.start(tmp_path, agents(model, tools=[look])) as runtime:
        found = await activities(runtime, await asked(runtime, f"what is {SECRET}?"))
        assert [(one.kind.value, one.name, one.outcome) for one in found] == [
            ("model", model.name, "called tools"),
            ("tool", "look", "ok"),
            ("tool", "look", "error"),
            ("tool", UNKNOWN_TOOL, "error"),
            ("model", model.name, "answered"),
        ]
        assert SECRET not in repr(found)


async def test_a_request_that_failed_keeps_the_vendors_answer(tmp_path):
    vendor = VendorError(status=529, request_id="req_9", code="overloaded_error", extract="Overloaded")
    model = ScriptedModel(raises(ModelFailed("the vendor is overloaded", vendor=vendor)), says("hi"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        failed, answered = await activities(runtime, await asked(runtime, "hello"))
        assert (failed.outcome, answered.outcome) == ("failed", "answered")
        told = {name: failed.detail[name] for name in ("reason", "status", "request_id", "code", "extract")}
        assert told == {
            "reason": "the vendor is overloaded",
            "status": 529,
            "request_id": "req_9",
            "code": "overloaded_error",
            "extract": "Overloaded",
        }


async def test_a_request_that_stop_cut_off_says_so(tmp_path):
    gate = Gate()
    model = ScriptedModel(stands_at(gate, says("too late")))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        message = await runtime.send("c", "hello", id="1")
        await gate.arrival()
        await runtime.send("c", "/stop", id="2")
        await soon(runtime.reply_to(message))
        (done,) = await activities(runtime, message)
        assert (done.kind, done.outcome, done.tokens_in) == (ActivityKind.MODEL, "interrupted", None)


async def test_a_turn_that_a_kill_interrupted_says_which_process_it_had(tmp_path):
    gate = Gate()
    before = await Process.start(tmp_path, agents(ScriptedModel(stands_at(gate, says("too late")))))
    message = await before.runtime.send("c", "hello", id="1")
    await gate.arrival()
    await before.kill()
    async with await Process.start(tmp_path, agents(ScriptedModel(says("hi")))) as runtime:
        await soon(runtime.reply_to(message))
        facts = await runtime.db.read(read_trace(message))
        resumed, answered = facts.activities
        assert (resumed.kind, resumed.outcome) == (ActivityKind.RESUMPTION, "thinking")
        assert answered.outcome == "answered"
        first, second = facts.runs
        assert (first.id, first.ending) == (resumed.name, "lost")
        assert facts.turn is not None
        assert (second.id, second.ending) == (facts.turn.node, None)


async def test_they_are_announced_once_they_are_stored(tmp_path):
    def look() -> str:
        return "a cat"

    model = ScriptedModel(calls("look"), says("hi", usage=Usage(tokens_in=11, tokens_out=3)))
    async with await Process.start(tmp_path, agents(model, tools=[look])) as runtime:
        feed = runtime.events()
        await asked(runtime, "hello")
        heard: list[object] = []
        while len(heard) < 3:
            event = await soon(anext(feed))
            if event.name == "turn.activity":
                heard.append((event.fields["kind"], event.fields["outcome"], event.fields["tokens_in"]))
        assert heard == [("model", "called tools", 0), ("tool", "ok", 0), ("model", "answered", 11)]
