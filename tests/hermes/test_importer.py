"""The promise: the history of a Hermes home is in Holdfast afterwards, once, with its times, lineage and chats.

Homes of every release from 0.13 to 0.19 are imported into both engines.
"""

import asyncio
import json

import pytest

from holdfast.hermes.home import find_home
from holdfast.hermes.importing.evidence import DeliveryEvidence
from holdfast.hermes.importing.home_reader import HermesReader
from holdfast.hermes.importing.import_sql import import_turns
from holdfast.hermes.importing.importer import HermesImport
from holdfast.hermes.importing.target import ImportTarget
from holdfast.hermes.kept_messages import KeptMessages
from holdfast.kernel.errors import HermesImportMismatch
from holdfast.kernel.ids import AgentName, Provider, SessionId
from holdfast.memory.delivery import DeliveryPolicy, PerAddress
from holdfast.sessions.compression_audit import Audit
from holdfast.sessions.history_sql import list_entries, list_session_facts, read_session
from holdfast.turns.context import render
from holdfast.turns.context_sql import read_context
from tests.support.hermes_home import BEGAN_AT, RELEASES, SUMMARY_PREFIX, HermesChat, HermesHome
from tests.support.ports import make_ports

CHAT = HermesChat()
FERN = AgentName("fern")
LOCAL, HINDSIGHT = (DeliveryPolicy(provider=Provider(name), naming=PerAddress()) for name in ("local", "hindsight"))


@pytest.fixture
def home(tmp_path):
    made = HermesHome(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def bring(driver, tmp_path):
    """Imports a home into the driver's store and returns the report."""

    async def run(home=None, *, target=True, evidence=None, **options):
        ports = make_ports(driver.db, clock=driver.clock)
        folder = home.folder if home is not None else tmp_path / "home"
        with HermesReader(find_home(folder, {})) as reader:
            chosen = ImportTarget(ports) if target else None
            return await HermesImport(reader, FERN, target=chosen, **options).run(evidence)

    return run


async def shown(driver, session):
    """The texts that a model would be shown, without frames."""
    return [one.content for one in render(await driver.db.read(read_context(SessionId(session))))]


async def journal(driver, session):
    """The texts of the journal that are two characters long: the turns of these tests, without summaries."""
    views = await driver.db.read(list_entries(SessionId(session), limit=1_000))
    return [view.entry.text for view in views if len(view.entry.text) == 2]


async def check_audit(driver):
    audit = Audit()
    for facts in await driver.db.read(list_session_facts(limit=1_000)):
        audit.add(facts)
    assert audit.report().first is None


@pytest.mark.parametrize("release", RELEASES)
async def test_the_history_of_every_release_is_imported(driver, bring, tmp_path, release):
    home = HermesHome(tmp_path / release, release)
    home.session("s1", CHAT, title="Cats")
    home.say("s1", "my cat is called Byron", "Nice.")
    home.use_tool("s1", "c1", "weather", {"at": "Bath"}, "rain")
    home.message("s1", "assistant", "It rains.")
    home.route(CHAT, "s1")
    report = await bring(home)
    home.close()
    assert [(one.state, one.rows, one.turns, one.goes_on) for one in report.sessions] == [("imported", 5, 1, True)]
    found = await driver.db.read(read_session(SessionId("hermes-s1")))
    assert (found.title, found.principal, found.live) == ("Cats", "telegram:4242", True)
    assert found.address == "agent:fern:telegram:dm:4242"
    assert await driver.texts("hermes-s1") == ["my cat is called Byron", "Nice.", "", "rain", "It rains."]
    first = (await driver.db.read(list_entries(SessionId("hermes-s1"))))[0].entry
    assert first.at == int((BEGAN_AT + 2) * 1000)
    await check_audit(driver)


async def test_a_second_import_changes_nothing(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    home.route(CHAT, "s1")
    first = await bring()
    before = await driver.rows("select * from entry"), await driver.rows("select * from session")
    again = await bring()
    assert [one.state for one in again.sessions] == ["there already"]
    assert again.digest == first.digest
    assert (await driver.rows("select * from entry"), await driver.rows("select * from session")) == before


async def test_what_hermes_adds_later_is_added_by_the_next_import(driver, bring, home):
    home.session("s1")
    home.say("s1", "a", "b")
    await bring()
    home.say("s1", "c", "d")
    assert [one.state for one in (await bring()).sessions] == ["extended"]
    assert await driver.texts("hermes-s1") == ["a", "b", "c", "d"]


async def test_a_session_that_changed_in_hermes_is_reported_and_left_alone(driver, bring, home):
    home.session("s1")
    home.say("s1", "a", "b")
    await bring()
    home.db.execute("update messages set content = 'x' where role = 'user'")
    assert [one.state for one in (await bring()).sessions] == ["differs"]
    assert await driver.texts("hermes-s1") == ["a", "b"]


async def test_an_interrupted_import_continues_after_its_last_page(driver, bring, home, monkeypatch):
    monkeypatch.setattr("holdfast.hermes.importing.importer.PAGE_ENTRIES", 2)
    home.session("s1")
    for n in range(5):
        home.say("s1", f"u{n}", f"a{n}")
    pages = 0

    async def write(self, session, turns):
        nonlocal pages
        pages += bool(turns)
        if pages == 3:
            raise asyncio.CancelledError
        if turns:
            await self._db.write(import_turns(session, tuple(turns)))

    with monkeypatch.context() as broken:
        broken.setattr(ImportTarget, "write", write)
        with pytest.raises(asyncio.CancelledError):
            await bring()
    found = await driver.db.read(read_session(SessionId("hermes-s1")))
    assert (found.turns, found.state.value, found.reason) == (2, "closed", "import")
    assert [one.state for one in (await bring()).sessions] == ["resumed"]
    assert await driver.texts("hermes-s1") == [text for n in range(5) for text in (f"u{n}", f"a{n}")]


async def test_a_page_that_was_written_before_changes_nothing(driver, bring, home, monkeypatch):
    home.session("s1")
    home.say("s1", "a", "b")
    written = []

    async def write(self, session, turns):
        written.append((session, tuple(turns)))
        for _ in range(2):
            await self._db.write(import_turns(session, tuple(turns)))

    monkeypatch.setattr(ImportTarget, "write", write)
    await bring()
    assert await driver.texts("hermes-s1") == ["a", "b"]


async def test_an_entry_that_was_lost_on_the_way_is_found_out(driver, bring, home, monkeypatch):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    home.route(CHAT, "s1")

    async def write(self, session, turns):
        await self._db.write(import_turns(session, tuple(turns)))
        await driver.write("update entry set at = at + 1 where seq = 2")

    monkeypatch.setattr(ImportTarget, "write", write)
    with pytest.raises(HermesImportMismatch, match="hermes-s1 has 2 entries"):
        await bring()
    assert not (await driver.db.read(read_session(SessionId("hermes-s1")))).live


# --- compression


async def test_a_summary_in_place_covers_what_it_covered_in_hermes(driver, bring, home):
    home.session("s1", CHAT)
    for n in range(6):
        home.say("s1", f"u{n}", f"a{n}")
    home.compact_in_place("s1", "They counted.", head=2, tail=4)
    home.say("s1", "u6", "a6")
    report = await bring()
    assert [(one.rows, one.kept, one.copies) for one in report.sessions] == [(21, 15, 6)]
    summary, *rest = await shown(driver, "hermes-s1")
    assert "They counted." in summary
    assert "user: u0" in summary  # the first turn stayed in view
    assert rest == ["u4", "a4", "u5", "a5", "u6", "a6"]
    await check_audit(driver)


async def test_each_of_several_summaries_covers_more(driver, bring, home):
    home.session("s1")
    for n in range(9):
        home.say("s1", f"u{n}", f"a{n}")
        if n in {3, 6, 8}:
            home.compact_in_place("s1", f"summary after {n}", head=2, tail=2)
    await bring()
    context = await driver.db.read(read_context(SessionId("hermes-s1")))
    assert context.summaries == 3
    summary, *rest = await shown(driver, "hermes-s1")
    assert "summary after 8" in summary
    assert rest == ["u8", "a8"]
    assert await journal(driver, "hermes-s1") == [text for n in range(9) for text in (f"u{n}", f"a{n}")]
    await check_audit(driver)


@pytest.mark.parametrize("release", ["0.14.0", "0.19.0"])
async def test_a_rotated_session_goes_on_in_its_child(driver, bring, tmp_path, release):
    home = HermesHome(tmp_path / "rotated", release)
    home.session("s1", CHAT, title="Trip")
    for n in range(4):
        home.say("s1", f"u{n}", f"a{n}")
    home.rotate("s1", "s2", "They counted.", tail=2, title="Trip #2")
    home.say("s2", "u4", "a4")
    home.route(CHAT, "s1" if release == "0.14.0" else "s2")  # a killed 0.14 leaves the routing behind
    await bring(home, policies=(LOCAL,))
    home.close()
    parent, child = [await driver.db.read(read_session(SessionId(f"hermes-{name}"))) for name in ("s1", "s2")]
    assert (child.parent, child.principal, child.live) == (parent.id, "telegram:4242", True)
    assert (parent.live, parent.reason) == (False, "hermes:compression")
    summary, *rest = await shown(driver, "hermes-s2")
    assert "They counted." in summary
    assert rest == ["u3", "a3", "u4", "a4"]
    sent = await driver.rows("select stream, from_turn from delivery order by n")
    assert [turn for stream, turn in sent if stream == "hermes-s1"] == [1, 2, 3, 4]
    assert [stream for stream, _ in sent if stream == "hermes-s2"] == ["hermes-s2"]  # not the carried copies
    await check_audit(driver)


async def test_a_chat_goes_on_in_the_parent_of_an_empty_continuation(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    home.end("s1", "compression")
    home.session("s2", parent_session_id="s1")
    home.route(CHAT, "s2")
    report = await bring()
    assert report.empty == 1
    assert (await driver.db.read(read_session(SessionId("hermes-s1")))).live


PARTS = {"a copy": 1, "copies and a summary": 2, "copies beside a summary": 3}


def cut_short(home, rows):
    """A rotation that was killed while it wrote the child: only its first rows are stored."""
    home.session("s1", CHAT)
    for n in range(3):
        home.say("s1", f"u{n}", f"a{n}")
    home.rotate("s1", "s2", "They counted.", head=1, tail=4)
    home.db.execute(
        "delete from messages where session_id = 's2' and id > (select min(id) from messages"
        " where session_id = 's2') + ?",
        (rows - 1,),
    )
    home.route(CHAT, "s1")


@pytest.mark.parametrize("rows", PARTS.values(), ids=PARTS)
async def test_a_chat_goes_on_in_the_parent_of_a_continuation_that_was_cut_short(driver, bring, tmp_path, rows):
    home = HermesHome(tmp_path / "killed", "0.15.2")
    cut_short(home, rows)
    report = await bring(home, policies=(LOCAL,))
    home.close()
    assert [(one.session, one.goes_on) for one in report.sessions] == [("hermes-s1", True)]
    assert (report.rows, report.total("rows"), report.unfinished_rows) == (6 + rows, 6, rows)
    assert await shown(driver, "hermes-s1") == ["u0", "a0", "u1", "a1", "u2", "a2"]
    assert await driver.rows("select from_turn from delivery order by n") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("rows", PARTS.values(), ids=PARTS)
async def test_a_continuation_that_was_cut_short_is_as_its_transcript_has_it(driver, bring, tmp_path, rows):
    """0.14 writes the transcript first: it has the compressed history whole, and the turn that was not stored."""
    home = HermesHome(tmp_path / "killed", "0.14.0")
    cut_short(home, rows)
    carried = [("user", "u0"), ("user", f"{SUMMARY_PREFIX}\nThey counted."), ("user", "u1"), ("assistant", "a1")]
    carried += [("user", "u2"), ("assistant", "a2"), ("user", "u3"), ("assistant", "a3")]
    home.transcript("s2", [{"role": role, "content": text} for role, text in carried])
    report = await bring(home, policies=(LOCAL,))
    home.close()
    assert [(one.session, one.goes_on) for one in report.sessions] == [("hermes-s1", False), ("hermes-s2", True)]
    assert (await shown(driver, "hermes-s2"))[1:] == ["u1", "a1", "u2", "a2", "u3", "a3"]
    sent = await driver.rows("select stream, from_turn from delivery order by n")
    assert [turn for stream, turn in sent if stream == "hermes-s1"] == [1, 2, 3]
    assert len([stream for stream, _ in sent if stream == "hermes-s2"]) == 1


async def test_a_chat_goes_on_in_the_branch_of_a_fork_that_was_not_ended(driver, bring, tmp_path):
    home = HermesHome(tmp_path / "forked", "0.14.0")
    home.session("s1", CHAT)
    home.say("s1", "u0", "a0")
    home.rotate("s1", "s2", "They counted.")
    home.say("s2", "u1", "a1")
    home.session("s3", source="telegram", parent_session_id="s1")
    home.say("s3", "u2", "a2")
    home.end("s3", "orphaned_compression")
    home.route(CHAT, "s1")
    report = await bring(home)
    home.close()
    assert [one.session for one in report.sessions if one.goes_on] == ["hermes-s2"]


async def test_what_0_19_writes_at_a_rotation_is_delivered_once(driver, bring, home):
    """The transcript is written again, then the message that came, which the child has too, with its answer."""
    home.session("s1", CHAT)
    for _ in range(2):
        for n in range(4):
            home.say("s1", f"u{n}", f"a{n}")
    home.message("s1", "user", "u4")
    home.end("s1", "compression")
    home.session("s2", parent_session_id="s1")
    home.message("s2", "user", "u0")
    home.message("s2", "assistant", f"{SUMMARY_PREFIX}\nThey counted.")
    home.say("s2", "u3", "a3")
    home.say("s2", "u4", "a4")
    home.route(CHAT, "s2")
    report = await bring(policies=(LOCAL,))
    assert [(one.turns, one.copies) for one in report.sessions] == [(4, 9), (4, 0)]
    sent = await driver.rows(
        "select entry.body from delivery join entry on entry.session = delivery.stream"
        " and entry.seq between delivery.from_seq and delivery.through_seq order by delivery.n, entry.seq"
    )
    texts = [json.loads(bytes(body))["text"] for (body,) in sent]
    assert texts == [text for n in range(5) for text in (f"u{n}", f"a{n}")]
    assert (await shown(driver, "hermes-s2"))[1:] == ["u3", "a3", "u4", "a4"]


async def test_one_row_before_an_older_summary_is_a_copy_if_its_time_is_that_of_the_first(driver, bring, home):
    home.session("s1")
    for n in range(8):
        home.say("s1", f"u{n}", f"a{n}")
        if n in {3, 6}:
            home.compact_in_place("s1", f"summary after {n}", head=1, tail=2)
    await bring()
    assert await journal(driver, "hermes-s1") == [text for n in range(8) for text in (f"u{n}", f"a{n}")]


async def test_undone_messages_are_kept_as_undone(driver, bring, home):
    home.session("s1")
    home.say("s1", "a", "b")
    user, _ = home.say("s1", "c", "d")
    home.undo("s1", user)
    home.say("s1", "e", "f")
    report = await bring(policies=(LOCAL,))
    assert report.total("undone") == 2
    views = await driver.db.read(list_entries(SessionId("hermes-s1")))
    assert [view.entry.text for view in views if view.undone] == ["c", "d"]
    assert await shown(driver, "hermes-s1") == ["a", "b", "e", "f"]
    assert await driver.rows("select from_turn from delivery order by n") == [(1,), (3,)]


async def test_a_call_without_a_result_and_a_result_without_a_call_are_shown_to_no_model(driver, bring, home):
    home.session("s1")
    home.message("s1", "user", "look")
    home.message("s1", "tool", "lost", tool_call_id="gone", tool_name="weather")
    home.use_tool("s1", "c1", "weather", {}, "rain")
    home.message("s1", "assistant", "", tool_calls='[{"id": "c2", "function": {"name": "stop", "arguments": "{}"}}]')
    await bring()
    rendered = render(await driver.db.read(read_context(SessionId("hermes-s1"))))
    called = [call.id for one in rendered for call in one.calls]
    assert called == [one.call for one in rendered if one.role == "tool"] == ["c1", "c2"]


# --- providers


async def test_a_provider_gets_the_turns_that_it_lacks(driver, bring, home):
    home.session("s1", CHAT)
    for said in ("a", "c", "e"):
        home.say("s1", said, "ok")
    evidence = DeliveryEvidence([KeptMessages("hindsight", by_session={"s1": ["a", "e"]})])
    report = await bring(policies=(LOCAL, HINDSIGHT), evidence=evidence)
    sent = await driver.rows("select provider, from_turn from delivery order by provider, n")
    assert sent == [("hindsight", 2), ("local", 1), ("local", 2), ("local", 3)]
    marks = await driver.rows("select provider, scheduled_seq, settled_seq from cursor order by provider")
    assert marks == [("hindsight", 6, 2), ("local", 6, 0)]
    assert (report.offered, report.held) == (3, {"hindsight": 2})


async def test_a_provider_that_has_all_turns_gets_a_cursor_behind_them(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    evidence = DeliveryEvidence([KeptMessages("hindsight", by_session={"s1": ["a"]})])
    await bring(policies=(HINDSIGHT,), evidence=evidence)
    assert await driver.rows("select n from delivery") == []
    assert await driver.rows("select scheduled_seq, settled_seq from cursor") == [(2, 2)]


async def test_turns_that_are_added_later_are_judged_by_what_is_left_of_the_evidence(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "yes", "ok")
    kept = KeptMessages("hindsight", by_session={"s1": ["yes"]})
    await bring(policies=(HINDSIGHT,), evidence=DeliveryEvidence([kept]))
    home.say("s1", "yes", "ok")
    await bring(policies=(HINDSIGHT,), evidence=DeliveryEvidence([kept]))
    assert await driver.rows("select from_turn from delivery") == [(2,)]


async def test_scheduled_and_delegated_runs_are_not_delivered(driver, bring, home):
    home.session("s1", source="cron")
    home.session("s2", model_config='{"_delegate_from": "s1"}')
    for name in ("s1", "s2"):
        home.say(name, "a", "b")
    await bring(policies=(LOCAL,))
    found = await driver.rows("select id, purpose from session order by id")
    assert found == [("hermes-s1", "scheduled"), ("hermes-s2", "subagent")]
    assert await driver.rows("select n from delivery") == []


# --- routing


async def test_the_routing_of_a_moved_home_is_found_again(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    home.route(CHAT, "s1", scope="/srv/old/sessions")
    await bring()
    assert (await driver.db.read(read_session(SessionId("hermes-s1")))).live


async def test_the_routing_of_another_home_in_the_same_table_is_left_out(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    home.route(CHAT, "s1", scope="/srv/other/sessions", mirror=False)
    home.route(HermesChat(chat="7"), "s1")
    report = await bring()
    assert report.scopes_left_out == ("/srv/other/sessions",)
    assert [one.chat for one in report.sessions] == ["agent:fern:telegram:dm:7"]


async def test_a_finished_session_is_not_continued(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    home.route(CHAT, "s1", expiry_finalized=True)
    await bring()
    found = await driver.db.read(read_session(SessionId("hermes-s1")))
    assert (found.live, found.state.value, found.address) == (False, "closed", "agent:fern:telegram:dm:4242")


HERE = HermesChat(platform="http", type="chat", chat="home", user="ada")  # the chat of the driver


async def test_a_chat_goes_on_where_hermes_left_it(driver, bring, home):
    home.session("s1", HERE)
    home.say("s1", "my cat is called Byron", "Nice.")
    home.route(HERE, "s1")
    await bring()
    assert await driver.chat("and my dog?") == "hermes-s1"
    assert await shown(driver, "hermes-s1") == ["my cat is called Byron", "Nice.", "and my dog?", "re: and my dog?"]
    home.say("s1", "later in Hermes", "yes")
    assert [one.state for one in (await bring()).sessions] == ["goes on here"]
    assert len(await driver.texts("hermes-s1")) == 4


async def test_a_chat_that_has_a_session_here_keeps_it_and_can_resume_the_other(driver, bring, home):
    home.session("s1", HERE)
    home.say("s1", "a", "b")
    home.route(HERE, "s1")
    here = (await driver.talk("hello", who="http:ada")).session
    report = await bring()
    assert [one.goes_on for one in report.sessions] == [False]
    assert (await driver.db.read(read_session(here))).live
    assert (await driver.command("/resume hermes-s1", who="http:ada")).session == "hermes-s1"


async def test_members_of_a_group_keep_their_own_sessions(driver, bring, home):
    ada = HermesChat(type="group", chat="-100", user="1", per_user=True)
    bob = HermesChat(type="group", chat="-100", user="2", per_user=True)
    for name, chat in (("s1", ada), ("s2", bob)):
        home.session(name, chat)
        home.say(name, "a", "b")
        home.route(chat, name)
    report = await bring()
    assert {one.chat for one in report.sessions} == {
        "agent:fern:telegram:group:-100::1",
        "agent:fern:telegram:group:-100::2",
    }
    assert report.has_members


# --- transcripts


async def test_a_session_that_only_a_transcript_has_is_imported(driver, bring, tmp_path):
    home = HermesHome(tmp_path / "old", "0.14.0")
    said = [{"role": "session_meta"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    home.transcript("t1", said)
    home.transcript("t2", said, lines=True)
    await bring(home)
    home.close()
    assert await driver.texts("hermes-t1") == await driver.texts("hermes-t2") == ["a", "b"]


async def test_rows_that_a_compression_deleted_come_back_from_the_transcript(driver, bring, tmp_path):
    home = HermesHome(tmp_path / "old", "0.14.0")
    home.session("s1")
    said = []
    for n in range(4):
        home.say("s1", f"u{n}", f"a{n}")
        said += [{"role": "user", "content": f"u{n}"}, {"role": "assistant", "content": f"a{n}"}]
    home.transcript("s1", said)
    home.overwrite("s1", "They counted.", tail=2)
    await bring(home)
    home.close()
    assert await journal(driver, "hermes-s1") == [one["content"] for one in said]
    summary, *rest = await shown(driver, "hermes-s1")
    assert "They counted." in summary
    assert rest == ["u3", "a3"]


ENDS = {"taken back": (2, ["u0", "a0"]), "cut off": (1, ["u0", "a0", "u1", "a1"])}


@pytest.mark.parametrize(("ended", "seen"), ENDS.values(), ids=ENDS)
async def test_the_log_says_whether_the_last_turn_was_taken_back_or_cut_off(driver, bring, tmp_path, ended, seen):
    """Only the transcript has the turn, as 0.14 leaves it in both cases."""
    home = HermesHome(tmp_path / "old", "0.14.0")
    home.session("s1", CHAT)
    home.say("s1", "u0", "a0")
    turns = [{"role": role, "content": f"{role[0]}{n}"} for n in range(2) for role in ("user", "assistant")]
    home.transcript("s1", turns)
    home.route(CHAT, "s1")
    for n in range(2):
        at = f"2026-02-02 02:5{n}"
        home.log(f"{at}:00,100 INFO run_agent: conversation turn: session=s1 platform=telegram history=0 msg='u{n}'")
        if n < ended:
            home.log(f"{at}:05,100 INFO run_agent: Turn ended: reason=text session=s1")
    await bring(home, policies=(LOCAL,))
    home.close()
    assert await shown(driver, "hermes-s1") == seen
    assert await journal(driver, "hermes-s1") == ["u0", "a0", "u1", "a1"]
    assert len(await driver.rows("select n from delivery")) == len(seen) // 2


async def test_an_unreadable_transcript_is_reported_and_the_rest_is_imported(driver, bring, tmp_path):
    home = HermesHome(tmp_path / "old", "0.14.0")
    home.transcript("t1", [{"role": "user", "content": "a"}])
    (home.sessions / "session_t2.json").write_text("{")
    (home.sessions / "sessions.json").write_bytes(b"\xff\xfe")
    report = await bring(home)
    home.close()
    assert {one.split(":")[0] for one in report.skipped} == {"session_t2.json", "sessions.json"}
    assert await driver.texts("hermes-t1") == ["a"]


async def test_a_dry_run_reports_the_same_digest_and_writes_nothing(driver, bring, home):
    home.session("s1", CHAT)
    home.say("s1", "a", "b")
    dry = await bring(target=False)
    assert await driver.rows("select id from session") == []
    assert dry.digest == (await bring()).digest
