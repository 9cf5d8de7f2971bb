"""In a chat in which several people speak, nobody's private notes and words are in any context, although the chat is no
group: the others read the answers. A chat with one person, whose accounts may be linked, stays private.

Rules: D44, R13.
"""

from collections.abc import AsyncIterator

import pytest

import holdfast
from holdfast.core.delivery import DeliveryState
from holdfast.models.practice import PracticeModel
from holdfast.ports.model import ModelEvent, ModelRequest, Task
from tests.patience import within

SECRET = "Byron"
QUESTION = "What is my cat called?"


class Listening:
    """The practice model, which keeps what it was last asked for a reply."""

    name = "listening"

    def __init__(self) -> None:
        self.shown = ""

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.task is Task.REPLY:
            self.shown = "\n".join(message.content for message in request.messages)
        async for event in PracticeModel().ask(request):
            yield event


async def remembered(runtime) -> None:
    """Until what was said and noted has reached every provider."""
    async with within(60):
        while True:
            ends = await runtime.finalisations.list()
            found = await runtime.reader.deliveries()
            if all(end.ended_at for end in ends) and all(one.state == DeliveryState.DELIVERED.value for one in found):
                return
            await runtime.events().next_within(50)


@pytest.fixture
def model():
    return Listening()


@pytest.fixture
async def runtime(tmp_path, model):
    async with holdfast.open(tmp_path, model=model) as runtime:
        await runtime.ask("ada-dm", f"My cat is called {SECRET}.", sender="ada")
        await runtime.ask("ada-dm", "/new", sender="ada")  # it becomes a note of hers
        await remembered(runtime)
        yield runtime


async def test_where_she_is_alone_she_is_shown_what_is_hers(runtime, model):
    await runtime.ask("room", QUESTION, sender="ada")
    assert SECRET in model.shown


@pytest.mark.parametrize("between", ["", "/new"], ids=["the same session", "a new session"])
async def test_where_another_person_has_spoken_nothing_private_is_shown(runtime, model, between):
    await runtime.ask("room", "Good morning.", sender="bob")
    if between:
        await runtime.ask("room", between, sender="bob")
    await runtime.ask("room", QUESTION, sender="ada")
    assert SECRET not in model.shown
    assert SECRET not in await runtime.ask("room", QUESTION, sender="ada")
    assert SECRET in await runtime.ask("ada-phone", QUESTION, sender="ada")


async def test_a_second_account_of_the_same_person_leaves_the_chat_private(runtime, model):
    await runtime.ask("room", "Good morning.", sender="telegram:1")
    await runtime.access.link("telegram:1", "ada")
    await runtime.ask("room", QUESTION, sender="ada")
    assert SECRET in model.shown
