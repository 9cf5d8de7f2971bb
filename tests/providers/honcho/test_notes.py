"""Notes of the agent's memory are mirrored as conclusions, once each (R20); memory files are migrated once (R19)."""

from dataclasses import replace

import pytest

from holdfast.kernel.errors import StoreCorrupt
from holdfast.memory.delivery import Delivered, Landing, Refused, Uncertain, Unreachable
from holdfast.providers.honcho.migrate import LEDGER_FILE, MigrationLedger
from tests.support.honcho_kit import NoTasks, carry, note, one, provider_on


def contents(server):
    return [row["content"] for row in server.conclusions()]


async def test_a_note_becomes_a_conclusion_of_the_agent_about_the_person(server, provider):
    outcome = await one(provider, note(provider, 1, "likes tea"))
    assert isinstance(outcome, Delivered)
    assert outcome.receipt.startswith("conclusion con")
    [row] = server.conclusions()
    assert (row["content"], row["observer_id"], row["observed_id"]) == ("likes tea", "agent-main", "user-main-ada")
    assert row["session_id"] is None
    assert server.sessions() == []


@pytest.mark.parametrize(
    ("target", "subject", "pair"),
    [
        ("memory", "", ("shared-main", "notes-main")),
        ("user", "", ("agent-main", "shared-main")),
        ("memory", "chat:agent:main:x", ("scope-main-chat_3aagent_3amain_3ax", "notes-main")),
        ("user", "chat:agent:main:x", ("agent-main", "scope-main-chat_3aagent_3amain_3ax")),
        ("user", "bob", ("agent-main", "user-main-bob")),
        ("memory", "bob", ("user-main-bob", "notes-main")),
    ],
)
async def test_each_target_and_subject_has_a_pair_of_its_own(server, provider, target, subject, pair):
    await one(provider, note(provider, 1, "a fact", target=target, subject=subject))
    [row] = server.conclusions()
    assert (row["observer_id"], row["observed_id"]) == pair


async def test_replacing_and_removing_leave_what_holds_now(server, provider):
    await one(provider, note(provider, 1, "likes tea"))
    await one(provider, note(provider, 2, "has a cat"))
    await one(provider, note(provider, 3, "likes coffee", op="replace", old="likes tea"))
    assert sorted(contents(server)) == ["has a cat", "likes coffee"]
    removed = note(provider, 4, "", op="remove", old="has a cat")
    assert isinstance(await one(provider, removed), Delivered)
    assert contents(server) == ["likes coffee"]
    assert await provider.landed(removed) is Landing.LANDED
    assert isinstance(await one(provider, replace(removed, attempt=2)), Delivered)


@pytest.mark.parametrize(
    ("fault", "method", "between"),
    [
        ("reset_before", "POST", ["likes tea"]),
        ("drop_after", "POST", ["likes coffee", "likes tea"]),
        ("reset_before", "DELETE", ["likes coffee", "likes tea"]),
        ("drop_after", "DELETE", ["likes coffee"]),
    ],
)
async def test_a_replacement_that_was_interrupted_is_completed(server, provider, fault, method, between):
    await one(provider, note(provider, 1, "likes tea"))
    change = note(provider, 2, "likes coffee", op="replace", old="likes tea")
    server.fail_next(fault, path="/conclusions$" if method == "POST" else "/conclusions/", method=method)
    assert isinstance(await one(provider, change), Uncertain)
    assert sorted(contents(server)) == between, "both or one of them, never neither"
    assert isinstance(await carry(provider, replace(change, attempt=2)), Delivered)
    assert contents(server) == ["likes coffee"]


async def test_a_second_copy_that_landed_late_is_deleted(server, provider):
    given = note(provider, 1, "likes tea")
    await one(provider, given)
    server.workspaces["holdfast"].conclusions.append(server.conclusions()[0] | {"id": "late"})
    assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert contents(server) == ["likes tea"]


async def test_a_note_that_landed_is_not_sent_again(server, provider):
    given = note(provider, 1, "likes tea")
    await one(provider, given)
    sent = server.count("POST", "/conclusions")
    assert isinstance(await one(provider, replace(given, attempt=2)), Delivered)
    assert server.count("POST", "/conclusions") == sent


async def test_nothing_after_a_note_that_failed_is_sent(server, provider):
    server.poison = {"xyzzy"}
    notes = [note(provider, 1, "a"), note(provider, 2, "xyzzy"), note(provider, 3, "c")]
    outcomes = await provider.deliver(notes)
    assert [type(outcome) for outcome in outcomes] == [Delivered, Refused, Unreachable]
    assert contents(server) == ["a"]


async def test_a_note_that_honcho_cannot_take_is_refused_with_a_sentence(server, provider):
    for given in (note(provider, 1, " "), note(provider, 2, "x" * 70_000)):
        outcome = await one(provider, given)
        assert isinstance(outcome, Refused)
        assert "xxx" not in outcome.reason
    assert server.conclusions() == []


async def test_bad_characters_in_a_note_are_sent_where_they_can_be_seen(server, provider):
    given = note(provider, 1, "nul \0, lone \ud800, <|endoftext|>")
    assert isinstance(await one(provider, given), Delivered)
    assert await provider.landed(given) is Landing.LANDED
    assert contents(server) == ["nul \u2400, lone \ufffd, <\\|endoftext|>"]


# --- files ---------------------------------------------------------------------------------------------------

FILES = {"MEMORY.md": "the server is called atlas", "USER.md": "Ada, likes tea", "SOUL.md": "be kind"}


def uploaded(server):
    return {row["metadata"]["file"]: (row["peer_id"], row["content"]) for row in server.messages()}


async def test_memory_files_are_migrated_once_and_a_changed_one_once_more(server, tmp_path):
    async with provider_on(server, folder=tmp_path / "new", strategy="per-directory") as provider:
        first = await provider.migrate(FILES, subject="ada")
        again = await provider.migrate(FILES, subject="ada")
        changed = await provider.migrate(FILES | {"USER.md": "Ada, likes coffee"}, subject="ada")
    assert all(isinstance(outcome, Delivered) for made in (first, again, changed) for outcome in made.values())
    assert len(server.messages()) == 4
    assert uploaded(server)["MEMORY.md"] == ("user-main-ada", "the server is called atlas")
    assert uploaded(server)["SOUL.md"] == ("agent-main", "be kind")


async def test_memory_files_are_never_migrated_per_session(server, provider):
    outcomes = await provider.migrate(FILES)
    assert all(isinstance(outcome, Refused) for outcome in outcomes.values())
    assert server.requests == []


async def test_a_crash_between_sending_and_marking_sends_no_second_copy(server, tmp_path, monkeypatch):
    tasks = NoTasks()
    async with provider_on(server, folder=tmp_path, tasks=tasks, strategy="global") as provider:
        with monkeypatch.context() as crash:
            crash.setattr(MigrationLedger, "mark", _mark_only_beginnings(MigrationLedger.mark))
            with pytest.raises(_Crash):
                await provider.migrate({"USER.md": "Ada"})
        assert len(server.messages()) == 1
        assert isinstance((await provider.migrate({"USER.md": "Ada"}))["USER.md"], Delivered)
    assert len(server.messages()) == 1
    assert tasks.slept_ms == [30_000]  # a request that was under way has taken effect by then


class _Crash(BaseException):
    """The process dies here."""


def _mark_only_beginnings(mark):
    def crashing(ledger, key):
        if not key.endswith(":begun"):
            raise _Crash
        mark(ledger, key)

    return crashing


async def test_a_file_whose_answer_was_lost_is_there_once(server, tmp_path):
    async with provider_on(server, folder=tmp_path, strategy="global") as provider:
        server.fail_next("drop_after", path="/messages$")
        assert isinstance((await provider.migrate({"USER.md": "Ada"}))["USER.md"], Uncertain)
        assert isinstance((await provider.migrate({"USER.md": "Ada"}))["USER.md"], Delivered)
    assert len(server.messages()) == 1


async def test_what_is_no_memory_file_is_refused_and_a_blank_one_is_nothing(server, tmp_path):
    async with provider_on(server, folder=tmp_path, strategy="global") as provider:
        outcomes = await provider.migrate({"notes.txt": "x", "USER.md": " \n"})
    assert isinstance(outcomes["notes.txt"], Refused)
    assert isinstance(outcomes["USER.md"], Delivered)
    assert server.messages() == []


def test_the_ledger_outlives_its_process_and_a_damaged_one_is_not_taken_for_empty(tmp_path):
    MigrationLedger(tmp_path / "deep").mark("a")
    MigrationLedger(tmp_path / "deep").mark("b")
    assert [MigrationLedger(tmp_path / "deep").seen(key) for key in "abc"] == [True, True, False]
    (tmp_path / "deep" / LEDGER_FILE).write_text('["a"')
    with pytest.raises(StoreCorrupt, match="damaged"):
        MigrationLedger(tmp_path / "deep").seen("a")
