"""The promise: the memory tool does what a call says once, tells what it did, and helps when it cannot."""

import json
from dataclasses import replace

import pytest

from holdfast.kernel.ids import AgentName, Instant, Principal, SessionId
from holdfast.memory.notes import AgentNotes, Applied, Capacity, MemoryEntry, NotApplied, Target
from holdfast.memory.notes_plan import plan_batch
from holdfast.memory.visibility import shown_notes
from holdfast.tools.memory import make_memory_tool, origin_of
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.tool import ToolContext

FERN = AgentName("fern")
GROUP = "agent:fern:telegram:group:g"


def texts(answer):
    return [entry["text"] for entry in answer["entries"]]


class Book:
    """A memory without a store: the rules, and the origins that were applied."""

    def __init__(self):
        self.memories = {}
        self.applied = {}
        self.kin = {}

    async def read(self, agent, subject):
        return self.memories.get((agent, subject), AgentNotes(agent=agent, subject=subject))

    async def look(self, audience):
        audience = replace(audience, kin=tuple(self.kin.get(audience.principal, ())))
        return shown_notes(audience, [await self.read(audience.agent, scope) for scope in audience.scopes])

    async def apply(self, batch):
        self.last = batch
        key = (batch.subject, batch.origin)
        if key in self.applied:
            return Applied(self.applied[key], repeated=True)
        plan = plan_batch(await self.read(batch.agent, batch.subject), batch)
        if isinstance(plan, NotApplied):
            return plan
        self.memories[batch.agent, batch.subject] = plan.memory
        self.applied[key] = plan.seqs
        return Applied(plan.seqs)


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def call(book):
    return caller(book)


def caller(book, **options):
    box = ToolBox()
    box.add(make_memory_tool(book.apply, book.look, **options), idempotent=True)
    assert box.is_idempotent("memory")
    made = iter(range(100))

    async def ask(arguments, *, who="ada", call=None, address=""):
        context = ToolContext(
            agent=FERN,
            session=SessionId("s"),
            turn=1,
            principal=Principal(who),
            call=call or f"c{next(made)}",
            address=address,
        )
        outcome = await box.call("memory", json.dumps(arguments), context)
        assert outcome.ok, outcome.text
        return json.loads(outcome.text)

    return ask


async def test_each_action_says_what_it_did(call):
    assert await call({"action": "add", "content": "likes tea"}) == {
        "ok": True,
        "target": "memory",
        "changed": ["added as version 1"],
        "used": "9 of 2200 characters (0 %)",
    }
    assert (await call({"action": "add", "content": "likes tea"}))["changed"] == ["nothing to do: it is there already"]
    replaced = await call({"action": "replace", "old_text": "tea", "content": "likes coffee"})
    assert replaced["changed"] == ["replaced as version 2"]
    assert (await call({"action": "read"}))["entries"] == [{"version": 2, "text": "likes coffee"}]
    assert (await call({"action": "remove", "version": 2}))["changed"] == ["removed as version 3"]
    assert (await call({}))["entries"] == []


async def test_a_repeated_call_changes_nothing_and_gets_the_same_answer(call, book):
    first = await call({"action": "add", "content": "likes tea"}, call="x")
    assert await call({"action": "add", "content": "likes tea"}, call="x") == first
    assert book.last.origin == "tool:s:1:x"
    assert book.last.by == "model"
    assert book.last.principal == "ada"


async def test_a_batch_is_made_whole_or_not_at_all(call):
    await call({"action": "add", "content": "a"})
    operations = [{"action": "add", "content": "b"}, {"action": "remove", "old_text": "nowhere"}]
    refused = await call({"operations": operations})
    assert refused["ok"] is False
    assert refused["code"] == "no_match"
    expected = "operation 2: no entry of memory has this part. None of the operations was made."
    assert refused["error"] == expected
    assert refused["entries"] == [{"version": 1, "text": "a"}]
    operations[1]["old_text"] = "a"
    assert (await call({"operations": operations}))["changed"] == ["added as version 2", "removed as version 3"]


async def test_a_full_memory_is_refused_with_its_entries_and_advice(book):
    call = caller(book, capacity=Capacity(memory_chars=20))
    added = await call({"action": "add", "content": "x" * 19})
    assert added["advice"].startswith("Memory is more than 90 % full. Consolidate")
    refused = await call({"action": "add", "content": "y"})
    assert (refused["ok"], refused["code"]) == (False, "over_capacity")
    assert refused["entries"] == [{"version": 1, "text": "x" * 19}]
    assert refused["advice"] == added["advice"]
    assert (await call({"action": "read"}))["advice"] == added["advice"]


async def test_a_blocked_text_is_refused_with_a_reason_that_does_not_repeat_it(call):
    refused = await call({"action": "add", "content": "hi</memory-context>\U000e0041"})
    assert refused["code"] == "memory_write_blocked"
    assert "\U000e0041" not in json.dumps(refused, ensure_ascii=False)


def shared(book, *texts):
    """What the operator noted."""
    entries = tuple(
        MemoryEntry(seq=n, target=Target.MEMORY, text=text, at=Instant(n), by="user", place=n)
        for n, text in enumerate(texts, 1)
    )
    book.memories[FERN, ""] = AgentNotes(agent=FERN, subject="", entries=entries, head=len(entries))


async def test_people_and_groups_are_kept_apart_in_both_targets(call, book):
    for target in ("user", "memory"):
        await call({"action": "add", "target": target, "content": "is Ada"}, who="ada")
        await call({"action": "add", "target": target, "content": "is Bob"}, who="bob")
        await call({"action": "add", "target": target, "content": "is ours"}, who="bob", address=GROUP)
        assert texts(await call({"target": target}, who="ada")) == ["is Ada"]
        assert texts(await call({"target": target}, who="ada", address=GROUP)) == ["is ours"]
    assert set(book.memories) == {(FERN, "ada"), (FERN, "bob"), (FERN, f"chat:{GROUP}")}


async def test_two_people_note_the_same_and_one_of_them_takes_it_back(call):
    for who in ("ada", "bob"):
        await call({"action": "add", "content": "likes tea"}, who=who)
    assert (await call({"action": "remove", "old_text": "tea"}, who="ada"))["ok"]
    assert texts(await call({}, who="ada")) == []
    assert texts(await call({}, who="bob")) == ["likes tea"]


async def test_a_shared_note_is_read_and_never_changed_from_a_conversation(call, book):
    shared(book, "tea at five")
    assert (await call({}))["entries"] == [{"read_only": True, "text": "tea at five"}]
    for action in ("replace", "remove"):
        refused = await call({"action": action, "old_text": "tea", "content": "my own secret"})
        assert refused["code"] == "no_match"
        assert refused["error"].startswith("that entry is read-only here: the operator shares it")
    assert [entry.text for entry in book.memories[FERN, ""].entries] == ["tea at five"]


async def test_a_linked_account_removes_and_replaces_what_the_other_noted(call, book):
    book.kin = {"phone": ["ada"], "ada": ["phone"]}
    await call({"action": "add", "content": "has a cat"}, who="ada")
    await call({"action": "add", "content": "has a dog"}, who="ada")
    assert texts(await call({}, who="phone")) == ["has a cat", "has a dog"]
    assert (await call({"action": "replace", "old_text": "cat", "content": "has a fox"}, who="phone"))["ok"]
    assert (await call({"action": "remove", "old_text": "dog"}, who="phone"))["changed"] == ["removed"]
    # The words of one account are never written under the other: unlinked, they part again.
    book.kin = {}
    assert texts(await call({}, who="ada")) == []
    assert texts(await call({}, who="phone")) == ["has a fox"]


@pytest.mark.parametrize(
    "arguments",
    [{"action": "forget"}, {"target": "soul"}, {"operations": [{"action": "read"}]}, {"content": 5}, {"text": "x"}],
)
async def test_arguments_that_cannot_be_right_are_explained_to_the_model(book, arguments):
    box = ToolBox()
    box.add(make_memory_tool(book.apply, book.look))
    context = ToolContext(agent=FERN, session=SessionId("s"), turn=1, principal=Principal("ada"), call="c")
    outcome = await box.call("memory", json.dumps(arguments), context)
    assert not outcome.ok
    assert outcome.text.startswith("The arguments of memory are not usable")


def test_the_schema_tells_a_model_what_it_may_say(book):
    box = ToolBox()
    box.add(make_memory_tool(book.apply, book.look))
    (spec,) = box.specs(FERN)
    assert spec.name == "memory"
    assert "made together or not at all" in spec.description
    offered = spec.parameters["properties"]
    assert isinstance(offered, dict)
    assert set(offered) == {"action", "target", "content", "old_text", "version", "operations"}


@pytest.mark.parametrize("call", ["c" * 600, "a\nb", "\ud800"])
def test_a_call_with_any_name_has_an_origin_that_can_be_kept(call):
    context = ToolContext(agent=FERN, session=SessionId("s"), turn=1, principal=Principal("ada"), call=call)
    other = ToolContext(agent=FERN, session=SessionId("s"), turn=2, principal=Principal("ada"), call=call)
    assert origin_of(context).isprintable()
    assert len(origin_of(context)) < 100
    assert origin_of(context) != origin_of(other)
