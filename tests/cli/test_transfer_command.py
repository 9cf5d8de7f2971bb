"""`holdfast export` and `import` as an operator runs them, with what they refuse."""

import asyncio
import json
import re
from dataclasses import replace

import apsw
import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli.commands import app
from holdfast.kernel.ids import Instant, Principal
from holdfast.transfer.markdown import session_markdown
from holdfast.turns.journal import AnyBody, AssistantSaid, Entry, EntryView, ToolCall, ToolReturned, UserSaid
from holdfast.turns.policy import AgentPolicy
from tests.support.live import until
from tests.support.processes import Up


def run(*words):
    return CliRunner().invoke(
        app, [*map(str, words)], env={"HOLDFAST_DATA": None, "NO_COLOR": "1"}, prog_name="holdfast"
    )


def query(file, sql):
    db = apsw.Connection(str(file))
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data = tmp_path_factory.mktemp("filled") / "data"

    async def talk():
        async with holdfast.open(data, policy=AgentPolicy(memory={"local": {}})) as runtime:
            await runtime.ask("home", "My cat is called Byron.", sender="ada", id="1")
            await until(lambda: query(data / "holdfast.db", "select state from delivery") == [("delivered",)])

    asyncio.run(talk())
    return data


def test_an_imported_agent_remembers_and_knows_repeated_messages(folder, tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    done = run("export", first, "--agent", "main", "--data", folder, "--json")
    view = json.loads(done.stdout)
    assert (done.exit_code, view["scope"], view["sessions"], view["under_way"]) == (0, "agent main", 1, 0)
    assert first.stat().st_mode & 0o077 == 0
    checked = run("import", first, "--dry-run", "--data", tmp_path / "new", "--json")
    assert (json.loads(checked.stdout)["imported"], (tmp_path / "new").exists()) == (False, False)
    taken = run("import", first, "--data", tmp_path / "new", "--json")
    assert (taken.exit_code, json.loads(taken.stdout)["new"]["session"]) == (0, 1), taken.output
    assert (
        json.loads(run("export", second, "--agent", "main", "--data", tmp_path / "new", "--json").stdout)["sha256"]
        == view["sha256"]
    )
    assert first.read_bytes().splitlines()[1:] == second.read_bytes().splitlines()[1:]
    assert "Nothing is new" in run("import", first, "--data", tmp_path / "new").stdout

    async def go_on():
        async with holdfast.open(tmp_path / "new", policy=AgentPolicy(memory={"local": {}})) as runtime:
            known = await runtime.send("home", "My cat is called Byron.", sender="ada", id="1")
            assert known is not None
            assert "Byron" in await runtime.ask("home", "What is my cat called?", sender="ada", id="2")
            index = tmp_path / "new" / "agents" / "main" / "local" / "recall.db"
            await until(lambda: ("1",) in query(index, "select cast(min(turn) as text) from line"))

    asyncio.run(go_on())  # and the index is filled again
    conflict = run("import", first, "--data", tmp_path / "new", "--json")
    assert (conflict.exit_code, json.loads(conflict.stdout)["error"]["code"]) == (1, "import_conflict")
    trail = json.loads(run("audit", "actions", "--data", tmp_path / "new", "--json").stdout)["actions"]
    assert [(one["verb"], one["outcome"]) for one in trail] == [
        ("sessions.imported", "refused"),
        ("sessions.imported", "done"),
    ]


async def test_an_export_is_made_beside_a_serving_process_and_an_import_is_not(folder, tmp_path):
    file = tmp_path / "all.jsonl"
    up = await Up.start(tmp_path / "data")
    async with up.client() as client:
        await client.post("/v1/messages", json={"chat": "ada", "id": "1", "text": "hello"})
    done = await asyncio.to_thread(run, "export", file, "--data", tmp_path / "data")
    assert done.exit_code == 0, done.output
    refused = await asyncio.to_thread(run, "import", file, "--data", tmp_path / "data", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["code"]) == (1, "store_owned")
    assert await up.stop() == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--agent", "nobody"], "agent_not_found"),
        (["--chat", "nowhere"], "address_not_found"),
        (["--session", "ses_nowhere", "--format", "markdown"], "session_not_found"),
        (["--session", "ses_nowhere"], "invalid_input"),
    ],
)
def test_what_is_not_there_is_named_and_no_file_is_left(folder, tmp_path, words, code):
    done = run("export", tmp_path / "x", *words, "--data", folder, "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (1, code)
    assert not (tmp_path / "x").exists()


def test_files_are_not_written_over_and_a_cut_one_is_refused(folder, tmp_path):
    file = tmp_path / "x.jsonl"
    assert run("export", file, "--data", folder).exit_code == 0
    again = run("export", file, "--data", folder)
    assert (again.exit_code, "exists already" in again.stderr) == (1, True)
    file.write_bytes(file.read_bytes()[:-30])
    cut = run("import", file, "--data", tmp_path / "new", "--json")
    assert (cut.exit_code, json.loads(cut.stdout)["error"]["code"]) == (1, "export_invalid")
    assert not (tmp_path / "new").exists()
    none = run("import", tmp_path / "nothing", "--data", tmp_path / "new", "--json")
    assert (none.exit_code, json.loads(none.stdout)["error"]["code"]) == (1, "invalid_input")


def test_the_standard_output_has_the_lines_alone(folder):
    done = run("export", "-", "--data", folder)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.exit_code, lines[0]["holdfast_export"], lines[-1]["end"]) == (0, 1, True)


def read_first_session(folder):
    async def read():
        async with holdfast.open(folder) as runtime:
            return (await runtime.sessions())[0]

    return asyncio.run(read())


def test_markdown_shows_who_said_what_and_quotes_every_line(folder, tmp_path):
    done = run("export", "-", "--format", "markdown", "--data", folder)
    assert re.search(r"\*\*ada\*\*, 20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ\n\n> My cat is called Byron\.", done.stdout)
    session = read_first_session(folder)
    session = replace(session, title="# A *title*")
    bodies: list[AnyBody] = [
        UserSaid(text="hi\n# Not a heading\n**Agent**, now", principal=Principal("ada"), name="*Eve*"),
        AssistantSaid(text="", calls=(ToolCall(id="1", name="run", arguments='{"a": "``x"}'),)),
        ToolReturned(call="1", name="run", text="\n".join(["# out"] * 3) + "\x1b[2J\u202e\x9b1m"),
    ]
    entries = [
        EntryView(entry=Entry(seq=n, turn=1, body=body, tokens=0, at=Instant(0)), undone=n == 1)
        for n, body in enumerate(bodies)
    ]
    text = session_markdown(session, entries, lambda _: "then")
    assert "# \\# A \\*title\\*" in text
    assert [line for line in text.splitlines() if line.startswith(("#", "**Agent"))][1:] == ["**Agent**, then (undone)"]
    assert not {"\x1b", "\u202e", "\x9b"} & set(text)
    assert '``` {"a": "``x"} ```' in text
