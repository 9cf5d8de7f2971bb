"""Every privileged command leaves its rows of the audit trail, in the name of the user who gave it; the trail can be
filtered, exported and verified. A command that is not privileged says here why."""

import asyncio
import csv
import json
import re

import apsw
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import holdfast
from holdfast.audit.action import BY_NAME, Act, ActorKind, By
from holdfast.audit.action_sql import FIELDS, record_action
from holdfast.audit.actor import acting, acting_as
from holdfast.cli.commands import app
from holdfast.cli.running import local_user
from holdfast.turns.policy import AgentPolicy
from tests.security.test_actions import MALLORY, furnish, requests
from tests.support.hermes_home import HermesHome

# Groups and commands that are no privileged act, with the reason.
NO_ACT = {
    **dict.fromkeys(
        [
            "backup",
            "export",
            "trace",
            "attachment",
            "sessions",
            "show",
            "context",
            "recall",
            "approvals",
            "approvals|show",
            "channels",
            "tools",
            "replies",
            "deliveries",
            "spend",
            "extractions",
            "finalisations",
            "forgetting",
            "forget-status",
            "pairs",
            "links",
            "health",
            "version",
            "audit|actions",
            "config|check",
            "config|path",
            "config|show",
            "top",
            "tail",
            "top",
            "agents",
            "messages",
            "status",
            "memory|show",
            "memory|subjects",
            "memory|history",
            "token|list",
            "logins|list",
            "memory|review",
            "eval|compression",
            "eval|recall",
            "hermes|doctor",
            "hermes|status",
            "audit",
        ],
        "reads",
    ),
    **dict.fromkeys(("config", "memory", "token", "logins", "eval", "hermes"), "a group"),
    **dict.fromkeys(("chat", "send"), "speaks"),
    "compress": "loses nothing and decides nothing; it has an operation",
    **dict.fromkeys(("hermes|install", "hermes|uninstall", "hermes|repair"), "changes the home of Hermes, no store"),
    "hermes|serve": "serves the store in the home of Hermes",
    "init": "writes a configuration before there is a store",
    "log": "reads",
    "sim": "runs in a folder of its own",
    "reload": "asks the process that serves, which records it; see tests/cli/test_reload.py",
    "up": "serves; see test_a_process_that_serves_with_other_settings_says_so",
}


# Privileged commands that need the library which encrypts, or a folder of their own: tests/store/test_encryption.py and
# tests/store/test_backup.py, tests/repair and tests/transfer have their rows.
ELSEWHERE = {
    "restore": "data.restored",
    "doctor": "store.repaired",
    "import": "sessions.imported",
    "encrypt": "data.encrypted",
    "rekey": "data.rekeyed",
    "decrypt": "data.decrypted",
}


def commands_below(command, *words):
    for name, one in getattr(command, "commands", {}).items():
        yield "|".join((*words, name))
        yield from commands_below(one, *words, name)


def attempts(session, reply):
    """Command lines in order: the arguments, and the verbs of the rows that each leaves."""
    return {
        "token|new": (["token", "new", "--scope", "send", "--relay"], ["token.created"]),
        "pair": (["pair", "7K2M-PQ9X"], ["access.admitted"]),
        "unpair": (["unpair", "telegram:7K2MPQ9X"], ["access.withdrawn"]),
        "link": (["link", "telegram:1", "ada"], ["identity.linked"]),
        "unlink": (["unlink", "telegram:1"], ["identity.unlinked"]),
        "move": (["move", "agent:main:http:dm:hello", "agent:main:http:dm:new", "--yes"], ["address.moved"]),
        "approve": (["approve", "K7M2QX"], ["approval.decided"]),
        "deny": (["deny", "K7M2QY"], ["approval.decided"]),
        "resend": (["resend", reply], ["reply.resent"]),
        "replay": (["replay", f"mem:{session}:1"], ["delivery.replayed"]),
        "retry-extraction": (["retry-extraction", f"finish:{session}:9"], ["finalisation.retried"]),
        "refinish": (["refinish", f"finish:{session}:9"], []),  # the old name; it is being retried already
        "drop": (["drop", f"mem:{session}:12", "--yes"], ["delivery.dropped"]),
        "settle": (["settle", "rep_settle", "--arrived", "--yes"], ["reply.settled"]),
        "pause": (["pause", "main"], ["agent.paused"]),
        "resume": (["resume", "main"], ["agent.resumed"]),
        "backfill": (["backfill", "local"], ["provider.backfilled"]),
        "rebuild": (["rebuild", "local"], ["provider.rebuilt"]),
        "memory|add": (["memory", "add", "The office is in Rome."], ["memory.shared"]),
        "memory|replace": (["memory", "replace", "Rome", "The office is in Bonn."], ["memory.shared"]),
        "memory|move": (["memory", "move", "Bonn", "--to", "ada"], ["memory.changed", "memory.shared"]),
        "memory|undo": (["memory", "undo", "1", "--about", "ada"], ["memory.changed"]),
        "memory|import": (["memory", "import", "HERMES"], ["memory.shared"]),
        "hermes|import": (["hermes", "import", "HOME"], ["history.imported"]),
        "memory|remove": (["memory", "remove", "Paris"], ["memory.shared"]),
        "memory|migrate": (["memory", "migrate"], ["provider.migrated"]),
        "forget": (["forget", "--person", "ada", "--yes"], ["person.forgotten"]),
        "memory|revoke": (["memory", "revoke", "--author", "bob"], []),
        "logins|end": (["logins", "end", "--all", "--yes"], ["logins.ended"]),
        "token|revoke": (["token", "revoke", "TOKEN", "--yes"], ["token.revoked"]),
    }


@pytest.fixture
def folder(tmp_path):
    async def talk():
        async with holdfast.open(tmp_path / "data", policy=AgentPolicy(memory={})) as runtime:
            await runtime.ask("hello", MALLORY, sender="ada")

    asyncio.run(talk())
    return tmp_path / "data"


@pytest.fixture
def command(folder):
    def run(*arguments, exit_code=0):
        done = CliRunner().invoke(app, [*arguments, "--data", str(folder)])
        assert done.exit_code == exit_code, done.output
        return done.output

    return run


def read(command, *more):
    return json.loads(command("audit", "actions", "--limit", "1000", "--json", *more))["actions"][::-1]


def test_every_command_is_privileged_or_says_why_not():
    assert set(commands_below(get_command(app))) == set(attempts("", "")) | set(NO_ACT) | set(ELSEWHERE)


def test_every_privileged_command_leaves_its_rows_and_names_the_user(command, folder, tmp_path):
    session, reply = furnish(folder / "holdfast.db")
    (tmp_path / "hermes").mkdir()
    (tmp_path / "hermes" / "MEMORY.md").write_text("Paris is far.", encoding="utf-8")
    home = HermesHome(tmp_path / "home")
    home.session("s1")
    home.say("s1", "hello", "hi")
    home.close()
    token = ""
    before = len(read(command))
    for name, (words, verbs) in attempts(session, reply).items():
        folders = {"HERMES": str(tmp_path / "hermes"), "HOME": str(tmp_path / "home")}
        filled = [{**folders, "TOKEN": token}.get(word, word) for word in words]
        output = command(*filled)
        token = token or re.findall(r"tok_\w+", output)[0]
        rows = read(command)[before:]
        before += len(rows)
        assert [row["verb"] for row in rows] == verbs, name
        for row in rows:
            assert (row["outcome"], row["actor"]["kind"], row["actor"]["id"]) == ("done", "user", local_user().id), name
            assert row["actor"]["origin"].startswith("command line, process "), name
            assert row["subject"], name
    assert MALLORY not in json.dumps(read(command))
    command("audit", "actions", "--verify")


@pytest.mark.parametrize(
    ("words", "verb", "subject", "code"),
    [
        (["token", "revoke", "tok_nowhere", "--yes"], "token.revoked", "tok_nowhere", "token_not_found"),
        (["pair", "ZZZZ-ZZZZ"], "access.admitted", "ZZZZ-ZZZZ", "pairing_not_found"),
        (["forget", "--session", "ses_nowhere", "--yes"], "session.forgotten", "ses_nowhere", "session_not_found"),
        (["approve", "ZZZZZZ"], "approval.decided", "ZZZZZZ", "approval_not_found"),
        (["memory", "remove", "nothing"], "memory.shared", "", "invalid_input"),
    ],
)
def test_a_refused_command_is_on_record_with_its_code(command, words, verb, subject, code):
    command(*words, exit_code=1)
    (row,) = read(command)
    assert (row["verb"], row["subject"], row["outcome"], row["code"]) == (verb, subject, "refused", code)


def test_the_trail_is_filtered_exported_and_never_written_over(command, tmp_path):
    command("link", "telegram:1", "=ada")
    command("link", "telegram:2", "ada")
    assert [row["subject"] for row in read(command, "--subject", "telegram:2", "--since", "1h")] == ["telegram:2"]
    assert read(command, "--actor", "nobody") == []
    assert read(command, "--since", "2100-01-01") == []
    assert "telegram:1" in command("audit", "actions", "--verb", "identity.linked")
    lines, table = tmp_path / "trail.jsonl", tmp_path / "trail.csv"
    command("audit", "actions", "--export", str(lines))
    command("audit", "actions", "--export", str(table), "--verb", "identity.linked")
    assert [json.loads(line)["subject"] for line in lines.read_text().splitlines()] == ["telegram:1", "telegram:2"]
    with table.open(newline="") as opened:
        assert [row["subject"] for row in csv.DictReader(opened)] == ["telegram:1", "telegram:2"]
    assert table.stat().st_mode & 0o077 == 0
    assert "exists already" in command("audit", "actions", "--export", str(table), exit_code=1)
    assert "use 30m" in command("audit", "actions", "--since", "yesterday", exit_code=1)
    assert "it is one of" in command("audit", "actions", "--verb", "nonsense", exit_code=1)


def test_a_name_that_a_spreadsheet_would_run_is_exported_as_text(folder, command, tmp_path):
    async def act():
        async with holdfast.open(folder) as runtime:
            with acting_as(By(kind=ActorKind.PRINCIPAL, id="=HYPERLINK(1)")):
                await runtime.db.write(record_action(Act.LOGIN, "@SUM(1)", by=acting()))

    asyncio.run(act())
    command("audit", "actions", "--export", str(tmp_path / "trail.csv"))
    with (tmp_path / "trail.csv").open(newline="") as opened:
        (row,) = csv.DictReader(opened)
    assert (row["actor"], row["subject"]) == ("'=HYPERLINK(1)", "'@SUM(1)")


@pytest.mark.parametrize(
    "tampering",
    [
        "update action set actor = 'somebody else' where n = 1",
        "delete from action where n = 2",
        "delete from action where n = 3",
        f"insert into action ({FIELDS}) select {FIELDS.replace(', n,', ', 4,')} from action where n = 3",
    ],
)
def test_a_trail_that_was_changed_by_hand_is_found_out(command, folder, tampering):
    for n in range(3):
        command("link", f"telegram:1{n}", "ada")
    assert json.loads(command("audit", "actions", "--verify", "--json"))["actions"] == 3
    db = apsw.Connection(str(folder / "holdfast.db"))
    db.execute("drop trigger action_is_not_changed; drop trigger action_is_not_removed")
    db.execute(tampering)
    db.close()
    found = json.loads(command("audit", "actions", "--verify", "--json", exit_code=3))
    assert (found["ok"], bool(found["wrong"])) == (False, True)


def test_the_audit_without_more_still_proves_what_it_proved(command):
    assert json.loads(command("audit", "--json"))["ok"]


def test_every_act_is_tried_somewhere():
    tried = {verb for _, verbs in attempts("", "").values() for verb in verbs}
    tried |= {verb for _, _, verb, _ in requests("", "").values()}
    chat = {"session.deleted", "session.undone"}  # test_commands_in_a_chat_...
    chat |= {"session.switched", "turn.stopped"}  # tests/sessions/test_command_rights_sql.py
    others = {"access.denied", "session.forgotten", "config.changed"}  # tests/audit/test_action_sql.py
    assert tried | chat | others | set(ELSEWHERE.values()) == set(BY_NAME)
