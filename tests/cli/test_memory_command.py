"""`holdfast memory`: what holds, every change, and the way back, for people and for programs."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli.memory import memory
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.notes import Change, MemoryBatch, MemoryVerb, Target


@pytest.fixture
def run(tmp_path):
    def call(*arguments, exit_code=0):
        done = CliRunner().invoke(memory, [*map(str, arguments), "--data", str(tmp_path / "data")])
        assert done.exit_code == exit_code, done.output
        return done.output

    return call


def as_json(output):
    return json.loads(output.splitlines()[0])


def test_notes_are_added_replaced_removed_and_shown(run):
    assert run("add", "likes tea") == "Done as change 1. `holdfast memory undo 1` undoes it.\n"
    assert run("add", "likes tea") == "The note already exists; nothing was changed.\n"
    run("add", "is Ada", "--target", "user")
    run("replace", "tea", "likes green tea")
    shown = as_json(run("show", "--json"))
    assert [(one["version"], one["target"], one["text"], one["by"]) for one in shown["entries"]] == [
        (3, "memory", "likes green tea", "user"),
        (2, "user", "is Ada", "user"),
    ]
    assert "     3  likes green tea  (user, " in run("show")
    run("remove", "2", "--target", "user")
    assert [one["text"] for one in as_json(run("show", "--json"))["entries"]] == ["likes green tea"]


def test_every_change_is_in_the_history_and_can_be_taken_back(run):
    run("add", "likes tea")
    run("remove", "tea")
    assert as_json(run("undo", 2, "--json")) == {"changes": [3], "repeated": False}
    assert run("undo", 2) == "This was already done as change 3.\n"
    found = as_json(run("history", "--json"))["changes"]
    assert [(one["change"], one["action"], one["old_text"], one["text"], one["holds"]) for one in found] == [
        (1, "add", "", "likes tea", False),
        (2, "remove", "likes tea", "", False),
        (3, "add", "", "likes tea", True),
    ]
    assert "remove" in run("history", "--after", 1, "--limit", 1)


def test_people_and_the_agent_are_kept_apart(run):
    run("add", "likes tea", "--about", "ada")
    assert run("show") == "No notes yet.\n"
    assert "likes tea" in run("show", "--about", "ada")


def test_an_operator_sees_whose_notes_there_are_and_moves_one(run):
    run("add", "likes tea", "--about", "ada")
    run("add", "likes rum", "--about", "ada")
    assert as_json(run("subjects", "--json")) == {"subjects": [{"about": "ada", "notes": 2}]}
    run("move", "tea", "--about", "ada")
    run("move", 2, "--about", "ada", "--to", "bob")
    assert as_json(run("subjects", "--json"))["subjects"] == [
        {"about": "", "notes": 1},
        {"about": "ada", "notes": 0},
        {"about": "bob", "notes": 1},
    ]
    assert "(everyone)" in run("subjects")
    assert [(one["text"], one["shown_to"]) for one in as_json(run("show", "--json"))["entries"]] == [("likes tea", "")]
    assert "likes rum" in run("show", "--about", "bob")
    run("move", "nowhere", exit_code=1)


def test_a_note_of_an_earlier_release_is_marked_and_shared_by_moving_it(run, tmp_path):
    async def note():
        async with holdfast.open(tmp_path / "data") as runtime:
            change = Change(verb=MemoryVerb.ADD, target=Target.MEMORY, text="has a cat")
            batch = MemoryBatch(
                agent=AgentName("main"), subject="", origin="o", changes=(change,), principal=Principal("ada")
            )
            await runtime.apply_memory(batch)

    asyncio.run(note())
    assert "only for ada)" in run("show")
    assert [one["shown_to"] for one in as_json(run("show", "--json"))["entries"]] == ["ada"]
    run("move", "cat")
    assert [(one["text"], one["shown_to"]) for one in as_json(run("show", "--json"))["entries"]] == [("has a cat", "")]
    assert "only for" not in run("show")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("remove", "nowhere"), "invalid_input", "no_match: no entry of memory has this part"),
        (("remove", "77"), "invalid_input", "stale: entry 77 of memory was changed or removed since"),
        (("undo", "9"), "invalid_input", "no_match: there is no operation 9; the newest is 1"),
        (
            ("add", "x" * 3_000),
            "invalid_input",
            "over_capacity: memory would have 3012 characters of 2200; it has 9 now",
        ),
        (
            ("add", "</memory-context>"),
            "memory_write_blocked",
            "blocked: it holds a tag that frames what a model is told",
        ),
        (("add", "x", "--agent", "../x"), "invalid_name", "'../x' is not a valid agent name"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_with_a_stable_code(run, arguments, code, sentence):
    run("add", "likes tea")
    output = run(*arguments, "--json", exit_code=1)
    error = as_json(output)["error"]
    assert error["code"] == code
    assert sentence in error["message"]


def test_an_import_reports_every_entry_and_is_done_once(run, tmp_path):
    (tmp_path / "MEMORY.md").write_text("likes tea\n§\n" + "x" * 3_000, encoding="utf-8")
    first = as_json(run("import", tmp_path, "--json", exit_code=1))["entries"]
    assert [(one["file"], one["entry"], one["state"]) for one in first] == [
        ("MEMORY.md", 1, "imported"),
        ("MEMORY.md", 2, "refused"),
    ]
    assert "there already" in run("import", tmp_path, exit_code=1)
    assert "x" * 100 not in first[1]["reason"]
    assert "has neither" in run("import", tmp_path / "data", exit_code=1)
