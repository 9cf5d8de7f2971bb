"""The promise: a trace shows what became of the notes that its turn changed, and of no others.

Rules: R20, R40.
"""

from types import SimpleNamespace
from typing import Any

from holdfast.monitor.trace_notes_sql import TOOL
from holdfast.monitor.trace_sql import read_trace
from holdfast.tools import memory
from tests.monitor.stories import Story, kept_a_note


def test_the_names_of_the_tool_and_of_its_changes_are_those_that_the_tool_uses():
    context: Any = SimpleNamespace(session="ses_1", turn=3, call="call_1")
    assert (TOOL, memory.origin_of(context)) == (memory.NAME, "tool:ses_1:3:call_1")


async def test_the_notes_of_another_turn_are_not_in_the_trace(driver):
    noted = await kept_a_note(Story(driver))
    plain = await driver.say("Where is order B-1077?")
    story = Story(driver)
    claim, turn = await story.begins()
    await story.answers(claim, turn, story.asked_model())
    found = await driver.db.read(read_trace(noted))
    told = [(sent.view.provider, sent.view.op, sent.view.state) for sent in found.note_deliveries]
    assert told == [("files", "remember", "delivered")]
    assert [sent.view.provider for sent in found.deliveries] == ["local"]
    assert (await driver.db.read(read_trace(plain))).note_deliveries == ()
