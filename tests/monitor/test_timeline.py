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
from holdfast.monitor.timeline import timeline
from holdfast.monitor.trace_sql import read_trace
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
