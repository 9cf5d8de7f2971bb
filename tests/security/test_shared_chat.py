"""In a chat in which several people speak, no person's private notes and words are in any context, although the chat is
no group: the others read the answers. A chat with one person, whose accounts may be linked, stays private.

Rules: D44, R13.
"""

from collections.abc import AsyncIterator

import pytest

import holdfast
from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.kernel.ids import TokenId
from holdfast.memory.delivery import DeliveryState
from holdfast.models.practice import PracticeModel
from holdfast.runtime.app import make_agents
from holdfast.sessions.compression import Thresholds
from holdfast.sessions.finalisation_sql import list_finalisations
from holdfast.sessions.history_sql import list_deliveries, list_operations
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, ModelTask
from holdfast.turns.policy import AgentPolicy
from tests.support.live import code_of, serve
from tests.support.patience import within

SECRET = "Byron"
QUESTION = "What is my cat called?"


class Listening:
    """The practice model, which keeps what it was last asked for a reply."""

    name = "listening"

    def __init__(self) -> None:
        self.shown = self.said = ""

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.task is ModelTask.REPLY:
            self.shown = "\n".join(message.content for message in request.messages)
        async for event in PracticeModel().ask(request):
            if request.task is ModelTask.REPLY and isinstance(event, ModelAnswer):
                self.said = event.text
            yield event


async def remembered(runtime) -> None:
    """Until what was said and noted has reached every provider."""
    async with within(60):
        while True:
            ends = await runtime.db.read(list_finalisations())
            found = await runtime.db.read(list_deliveries())
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


# --- what another person's token reads of the chat


@pytest.fixture
async def live(tmp_path, model):
    async with serve(tmp_path / "data", agents=make_agents(model=model)) as live:
        await plant(live)
        yield live


async def plant(live) -> None:
    """A token of each person; what ada said in private, recalled for her in the chat of both."""
    for n, sender in enumerate(("ada", "bob"), 1):
        token = AccessToken(
            id=TokenId(f"tok_{n}"),
            scopes=frozenset({Scope.SEND, Scope.READ}),
            binding=Binding(sender=sender, chats=frozenset({"family"})),
        )
        await live.runtime.db.write(add_token(token, hash_token(spell_token(n))))
    await live.runtime.ask("ada", f"My cat is called {SECRET}.", sender="ada")
    await live.runtime.ask("ada", "/new", sender="ada")
    await remembered(live.runtime)
    await live.runtime.ask("family", "What do you know about my pets?", sender="ada")


async def test_another_persons_token_reads_what_was_said_and_not_what_the_model_was_shown(live, model):
    assert SECRET in model.shown, "she was alone there, so it was recalled for her"
    ada, bob = ({"Authorization": f"Bearer {spell_token(n)}"} for n in (1, 2))
    (session,) = (await live.client.get("/v1/sessions", params={"chat": "family"}, headers=bob)).json()["sessions"]
    for part in ("entries", "context"):
        own = await live.client.get(f"/v1/sessions/{session['id']}/{part}", headers=ada)
        assert (own.status_code, SECRET in own.text) == (200, True), part
    entries = await live.client.get(f"/v1/sessions/{session['id']}/entries", headers=bob)
    assert "about my pets" in entries.text
    assert SECRET not in entries.text.replace(model.said, ""), "but for what was answered there"
    context = await live.client.get(f"/v1/sessions/{session['id']}/context", headers=bob)
    assert (context.status_code, code_of(context)) == (403, "token_bound")


async def test_another_persons_token_reads_no_recalled_words_in_a_snapshot(tmp_path, model):
    policy = AgentPolicy(thresholds=Thresholds(context_tokens=1_000))
    async with serve(tmp_path / "data", model=model, policy=policy) as live:
        await plant(live)
        session = await live.talk("Thank you.", "That is all.", chat="family", sender="ada")
        await compressed(live.runtime, session)
        ada, bob = ({"Authorization": f"Bearer {spell_token(n)}"} for n in (1, 2))
        kinds = []
        for headers in (ada, bob):
            shown = await live.client.get(f"/v1/sessions/{session}/snapshots/1", headers=headers)
            kinds.append({one["kind"] for one in shown.json()["entries"]})
        assert kinds == [{"user", "assistant", "recall"}, {"user", "assistant"}]


async def compressed(runtime, session) -> None:
    feed = runtime.events()
    begun = await runtime.begin_compression(session)
    async with within(60):
        while not any(one.id == begun.id and one.ended_at for one in await runtime.db.read(list_operations())):
            await feed.next_within(50)
    feed.close()
