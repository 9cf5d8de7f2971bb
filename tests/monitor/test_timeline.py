"""The promise: the trace of a message tells the truth, in order and with times, whatever happened to it.

Each story is told to a store on each engine; the text of its trace is compared with the file of its name in
trace_texts/. To write the files again, run with HOLDFAST_WRITE_TRACES=1, and read the difference.

Rules: R40, D35.
"""

import os
from datetime import UTC
from pathlib import Path

import pytest

from holdfast.cli.timeline_text import timeline_lines
from holdfast.kernel.vendor_error import VendorError
from holdfast.monitor.timeline import timeline
from holdfast.monitor.timeline_step import Mark
from holdfast.monitor.trace_sql import read_trace
from holdfast.turns.activity import vendor_detail
from holdfast.turns.turn import TurnEvent
from tests.monitor.stories import STORIES, Story

TEXTS = Path(__file__).parent / "trace_texts"


async def told(driver, message, **how):
    found = timeline(await driver.db.read(read_trace(message)))
    return "\n".join(timeline_lines(found, UTC, **how)) + "\n"


@pytest.mark.parametrize("name", STORIES)
async def test_a_trace_tells_what_happened(driver, name):
    message = await STORIES[name](Story(driver))
    text, file = await told(driver, message), TEXTS / f"{name}.txt"
    if os.environ.get("HOLDFAST_WRITE_TRACES"):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def test_every_text_has_its_story():
    assert {file.stem for file in TEXTS.iterdir()} == set(STORIES)


async def test_a_failed_request_to_a_model_shows_the_vendors_answer(driver):
    story = Story(driver)
    message = await story.says()
    claim, turn = await story.begins()
    vendor = VendorError(status=529, request_id="req_9", code="overloaded_error", extract="Overloaded")
    failed = story.asked_model(outcome="failed", tokens_in=None, detail=vendor_detail(vendor, "it is overloaded"))
    await story.answers(claim, turn, failed, story.asked_model())
    steps = timeline(await driver.db.read(read_trace(message))).steps
    (told,) = [step.proof for step in steps if step.kind == "model" and step.mark is Mark.FAILED]
    assert told == "it is overloaded; status 529; request id req_9; overloaded_error; it said: Overloaded"


async def test_a_reason_that_is_a_sentence_stands_inside_another_one(driver):
    story = Story(driver)
    message = await story.says()
    claim, turn = await story.begins()
    await story.answers(claim, turn, event=TurnEvent.FAILED, reason="the model could not be reached.")
    told = timeline(await driver.db.read(read_trace(message)))
    assert told.verdict.startswith("Failed: the model could not be reached; the sender was told")
    assert told.steps[-2].proof == "the model could not be reached; 0 tokens in, 0 out"
