"""A platform message reaches the mailbox of its chat, under its sender's name, if the sender has access. A refused
message is answered or deliberately not kept. The channel acknowledges only after that.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdfast.inbox.accept_sql import accept_message, was_accepted
from holdfast.inbox.access_sql import is_admitted
from holdfast.inbox.attachment_sql import count_attachment_bytes, list_attachments, read_attachment
from holdfast.inbox.channel import ChannelCapabilities, IntakeOutcome
from holdfast.inbox.channel_status import ChannelStatus, ConnectionState
from holdfast.inbox.channels import ChannelConnection, Channels, Receiver
from holdfast.inbox.chat_message import Attachment, ChatMessage, MessageChange
from holdfast.inbox.message import Limits, MessageState
from holdfast.inbox.router import ATTEMPTS_MAX
from holdfast.kernel.errors import ChannelFailed, InvariantBroken, StoreUnavailable
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.kernel.vendor_error import vendor_error
from holdfast.outbox.post import Sent
from holdfast.outbox.reply_sql import list_replies
from holdfast.turns.policy import AccessPolicy, Door, GroupPolicy, Sharing
from tests.support.driver import SECRET
from tests.support.fakes import Process, ScriptedModel, agents, policy, soon
from tests.support.ports import replace_verb, verb_on

OPEN = AccessPolicy(door=Door.OPEN, group_door=Door.OPEN)


class Chat:
    """A platform in this process: `intake` takes what people write, `sent` is what they read."""

    capabilities = ChannelCapabilities(text_chars_max=4_000)

    def __init__(self, *failures):
        self.failures = list(failures)
        self.runs = 0
        self.intake: Any = None
        self.sent = []
        self.running = asyncio.Event()
        self.posted = asyncio.Condition()

    async def run(self, intake):
        self.runs += 1
        if self.failures:
            raise self.failures.pop(0)
        self.intake = intake
        intake.connected("as a test")
        self.running.set()
        await asyncio.Event().wait()

    async def send(self, post):
        async with self.posted:
            self.sent.append(post)
            self.posted.notify_all()
        return Sent(f"sent {len(self.sent)}")

    async def typing(self, address):
        pass

    async def close(self):
        pass

    async def texts(self, count):
        """What was sent, as soon as there is so much of it."""
        async with self.posted:
            await soon(self.posted.wait_for(lambda: len(self.sent) >= count))
        return [post.text for post in self.sent]


async def start(folder, chat, model=None, **more):
    who = agents(model or ScriptedModel(), replace(policy(), **{"access": OPEN, **more}))
    process = await Process.start(folder, who, channels=Channels({(AgentName("main"), "telegram"): chat}))
    await soon(chat.running.wait())
    return process


def wrote(text="hello", **more):
    return ChatMessage(**{"account": "telegram:1", "event_id": "10", "chat": "77", "sender": "5", "text": text, **more})


async def test_a_message_is_answered_where_it_came_from(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat) as runtime:
        assert await chat.intake.receive(wrote()) is IntakeOutcome.TAKEN
        assert await chat.intake.receive(wrote()) is IntakeOutcome.DUPLICATE
        assert await chat.intake.receive(wrote("edited since")) is IntakeOutcome.DUPLICATE
        await chat.texts(1)
        post = chat.sent[0]
        assert (str(post.address), post.in_reply_to) == ("agent:main:telegram:dm:77", "10")
        trace = await runtime.trace(post.message)
        assert (trace.principal, trace.chat, trace.event_id) == ("telegram:5", "77", "10")


async def test_nothing_is_acknowledged_while_the_store_is_away(tmp_path, monkeypatch):
    chat = Chat()
    async with await start(tmp_path, chat) as runtime:

        async def away(*_):
            raise StoreUnavailable("the disk is gone")

        with monkeypatch.context() as broken:
            replace_verb(broken, runtime.db, accept_message, away)
            with pytest.raises(StoreUnavailable):
                await chat.intake.receive(wrote())
        assert await chat.intake.receive(wrote()) is IntakeOutcome.TAKEN


async def test_a_stranger_is_told_how_to_ask_and_nothing_of_what_they_said_is_kept(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat, access=AccessPolicy()) as runtime:
        assert await chat.intake.receive(wrote("the canary sings", position=4)) is IntakeOutcome.STRANGER
        [notice] = await chat.texts(1)
        assert "holdfast pair" in notice
        assert await chat.intake.receive(wrote("hello?", event_id="11", position=5)) is IntakeOutcome.STRANGER
        [asking] = await runtime.access.pairs()
        assert (asking.principal, asking.agent) == ("telegram:5", "main")
        assert await chat.intake.read_up_to("telegram:1") == {"77": (5, "11")}
        await runtime.access.pair(asking.code)
        assert await chat.intake.receive(wrote("hello!", event_id="12")) is IntakeOutcome.TAKEN
        assert len(await chat.texts(3)) == 3, "the notice, the welcome and the answer"
    assert b"canary" not in b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


async def test_an_allowlist_lets_in_by_the_id_that_cannot_change(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat, access=AccessPolicy(door=Door.CLOSED, allow=frozenset({"telegram:5"}))):
        assert await chat.intake.receive(wrote()) is IntakeOutcome.TAKEN
        other = wrote(sender="6", sender_name="5", event_id="11")
        assert await chat.intake.receive(other) is IntakeOutcome.STRANGER


async def test_unaddressed_talk_in_a_group_is_heard_and_not_answered(tmp_path):
    chat, model = Chat(), ScriptedModel()
    async with await start(tmp_path, chat, model) as runtime:
        group = {"chat": "-9", "chat_type": "group"}
        heard = wrote("lunch at noon?", **group, addressed=False, sender_name="Ada")
        assert await chat.intake.receive(heard) is IntakeOutcome.TAKEN
        asked = wrote("what did she say?", **group, event_id="11", sender="6", sender_name="Ben")
        assert await chat.intake.receive(asked) is IntakeOutcome.TAKEN
        await chat.texts(1)
        seen = [message.content for message in model.requests[-1]]
        assert "[not addressed to you] Ada (telegram:5): lunch at noon?" in seen
        assert "Ben (telegram:6): what did she say?" in seen
        assert [one.turns for one in await runtime.sessions()] == [1]


async def test_a_command_that_was_not_said_to_the_agent_does_nothing(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat) as runtime:
        group = {"chat": "-9", "chat_type": "group"}
        await chat.intake.receive(wrote("remember this", **group))
        await chat.texts(1)
        await chat.intake.receive(wrote("/delete", **group, addressed=False, event_id="11"))
        await chat.intake.receive(wrote("still there?", **group, event_id="12"))
        await chat.texts(2)
        assert len(await runtime.sessions()) == 1


@pytest.mark.parametrize(("observe", "verdict"), [(True, IntakeOutcome.TAKEN), (False, IntakeOutcome.IGNORED)])
async def test_an_agent_overhears_only_where_it_is_told_to(tmp_path, observe, verdict):
    chat = Chat()
    async with await start(tmp_path, chat, groups=GroupPolicy(observe=observe)):
        heard = wrote("psst", chat_type="group", addressed=False)
        assert await chat.intake.receive(heard) is verdict


GROUP = {"chat": "-9", "chat_type": "group"}


@pytest.mark.parametrize("change", [MessageChange.EDITED, MessageChange.DELETED])
@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        ({}, IntakeOutcome.TAKEN),
        ({"event_id": "another"}, IntakeOutcome.TAKEN),
        (GROUP, IntakeOutcome.TAKEN),
        ({**GROUP, "addressed": False}, IntakeOutcome.IGNORED),
        ({**GROUP, "text": "x" * 99}, IntakeOutcome.IGNORED),
    ],
    ids=["private", "private, before our time", "addressed", "overheard", "refused"],
)
async def test_an_edit_is_heard_where_what_it_is_about_was(tmp_path, change, before, verdict):
    chat = Chat()
    policy = {"groups": GroupPolicy(observe=False), "limits": Limits(message_bytes_max=90)}
    async with await start(tmp_path, chat, **policy) as runtime:
        await chat.intake.receive(wrote(**before))
        edited = {**before, "text": "no", "change": change, "of": "10", "event_id": "10.change", "addressed": False}
        assert await chat.intake.receive(wrote(**edited)) is verdict
        assert await runtime.db.read(was_accepted("telegram:1", edited.get("chat", "77"), "10.change", SECRET)) is (
            verdict is IntakeOutcome.TAKEN
        )


async def test_each_sender_of_a_group_has_a_session_where_the_policy_says_so(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat, groups=GroupPolicy(groups=Sharing.PER_USER)) as runtime:
        await chat.intake.receive(wrote("one", chat="-9", chat_type="group"))
        await chat.intake.receive(wrote("two", chat="-9", chat_type="group", sender="6", event_id="11"))
        await chat.texts(2)
        assert {str(post.address) for post in chat.sent} == {
            "agent:main:telegram:group:-9::5",
            "agent:main:telegram:group:-9::6",
        }
        assert len(await runtime.sessions()) == 2


async def test_edits_and_deletions_are_heard_and_start_no_turn(tmp_path):
    chat, model = Chat(), ScriptedModel()
    async with await start(tmp_path, chat, model):
        await chat.intake.receive(wrote("meet at noon"))
        await chat.texts(1)
        await chat.intake.receive(wrote("/delete", event_id="10.edit.1", change=MessageChange.EDITED, of="10"))
        await chat.intake.receive(wrote("", event_id="10.delete", change=MessageChange.DELETED, of="10"))
        await chat.intake.receive(wrote("when?", event_id="11"))
        await chat.texts(2)
        seen = " ".join(message.content for message in model.requests[-1])
        assert "message 10 was edited and now reads" in seen
        assert "message 10 was deleted" in seen
        assert len(chat.sent) == 2


async def test_what_is_attached_is_kept_by_its_hash_and_named_to_the_model(tmp_path):
    chat, model = Chat(), ScriptedModel()
    attached = (
        Attachment(name="cat.png", media_type="image/png", size=3, body=b"cat"),
        Attachment(name="film.mp4", media_type="video/mp4", size=99_000_000),
    )
    async with await start(tmp_path, chat, model) as runtime:
        await chat.intake.receive(wrote("", attachments=attached))
        await chat.texts(1)
        [found] = await runtime.db.read(list_attachments(chat.sent[0].message))
        assert await runtime.db.read(read_attachment(found.hash)) == b"cat"
        seen = model.requests[-1][-1].content
        assert "[attached: cat.png, image/png, 3 bytes, sha256" in seen
        assert "[attached, not kept: film.mp4" in seen


async def test_a_full_mailbox_is_told_to_the_sender_because_a_platform_cannot_be_refused(tmp_path):
    chat, model = Chat(), ScriptedModel()
    async with await start(tmp_path, chat, model, limits=Limits(window_messages_max=2)) as runtime:
        verdicts = [await chat.intake.receive(wrote(f"{n}", event_id=f"{n}")) for n in range(4)]
        assert verdicts == [IntakeOutcome.TAKEN, IntakeOutcome.TAKEN, IntakeOutcome.REFUSED, IntakeOutcome.REFUSED]
        texts = await chat.texts(3)
        assert sum("not" in text and "taken" in text for text in texts) <= 1 <= len(texts)
        assert await chat.intake.receive(wrote("2", event_id="2")) is IntakeOutcome.DUPLICATE
        assert runtime.channel_registry.connections()[0].taken == 5


async def test_more_attachments_than_are_kept_are_counted(tmp_path):
    chat, model = Chat(), ScriptedModel()
    many = tuple(Attachment(name=f"{n}", media_type="image/png", size=1, body=b"%d" % n) for n in range(13))
    async with await start(tmp_path, chat, model) as runtime:
        await chat.intake.receive(wrote("look", attachments=many))
        await chat.texts(1)
        assert len((await runtime.trace(chat.sent[0].message)).enclosures) == 10
        assert model.requests[-1][-1].content.endswith("[and 3 more, not kept]")


async def test_what_an_agent_keeps_of_attachments_is_bounded_and_the_rest_is_named(tmp_path, caplog):
    chat, model = Chat(), ScriptedModel()
    async with await start(tmp_path, chat, model, limits=Limits(attachments_bytes_max=7)) as runtime:
        for n, body in enumerate((b"four", b"five!", b"six")):
            attached = (Attachment(name=f"{n}.txt", media_type="text/plain", size=len(body), body=body),)
            await chat.intake.receive(wrote("look", event_id=f"{n}", attachments=attached))
            await chat.texts(n + 1)
            seen = model.requests[-1][-1].content
            assert ("no space is left" in seen) is (f"[attached, not kept: {n}.txt" in seen) is (n == 1)
        assert await runtime.db.read(count_attachment_bytes(AgentName("main"))) == 7
        assert await runtime.db.read(count_attachment_bytes(AgentName("other"))) == 0
    assert caplog.messages.count("attachment.refused") == 1


async def test_a_name_that_is_no_text_does_not_cost_the_attachment(tmp_path):
    chat = Chat()
    attached = (Attachment(name="half \ud800.png", media_type="image/\udfff", size=3, body=b"cat"),)
    async with await start(tmp_path, chat) as runtime:
        assert await chat.intake.receive(wrote("look", attachments=attached)) is IntakeOutcome.TAKEN
        await chat.texts(1)
        [found] = (await runtime.trace(chat.sent[0].message)).enclosures
        assert (found.name, found.media_type) == ("half ?.png", "image/?")


@pytest.mark.parametrize(
    ("text", "reason", "told"),
    [
        ("half a \ud800", "invalid_unicode", "invalid characters"),
        ("the canary sings " * 9, "message_too_large", "too long"),
        ("\u200b\u2060", "empty_message", "no visible character"),
    ],
)
async def test_what_can_never_be_kept_is_refused_on_record_and_told_once(tmp_path, text, reason, told):
    chat = Chat()
    async with await start(tmp_path, chat, limits=Limits(message_bytes_max=100)) as runtime:
        attached = (Attachment(name="bird.txt", media_type="text/plain", size=6, body=b"canary"),)
        refused = wrote(text, position=3, attachments=attached if reason == "message_too_large" else ())
        assert await chat.intake.receive(refused) is IntakeOutcome.REFUSED
        assert await chat.intake.receive(refused) is IntakeOutcome.DUPLICATE
        assert await chat.intake.receive(wrote("whole", event_id="11", position=4)) is IntakeOutcome.TAKEN
        assert await chat.intake.read_up_to("telegram:1") == {"77": (4, "11")}
        notice, answer = await chat.texts(2)
        assert told in notice
        trace = await runtime.trace(chat.sent[0].message)
        assert (trace.state, trace.reason, trace.event_id) == (MessageState.REFUSED, reason, "10")
        assert chat.sent[1].in_reply_to == "11"
        assert "whole" in answer
    assert b"canary" not in b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


async def test_each_message_that_is_too_long_is_told_and_a_flood_of_them_is_not(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat, limits=Limits(message_bytes_max=9, window_messages_max=2)):
        for n in range(5):
            assert await chat.intake.receive(wrote("far too long", event_id=f"{n}")) is IntakeOutcome.REFUSED
        assert sorted(["too long" in text for text in await chat.texts(3)]) == [False, True, True]
        assert "too many" in " ".join(post.text for post in chat.sent)


@pytest.mark.parametrize("fault", [InvariantBroken("a bug"), KeyError("a bug")], ids=["ours", "unforeseen"])
async def test_a_fault_of_ours_is_not_acknowledged_until_it_is_on_record(tmp_path, monkeypatch, fault):
    chat = Chat()
    async with await start(tmp_path, chat) as runtime:
        accept = verb_on(runtime.db, accept_message)

        async def trip(arrival, *more):
            if "poison" in arrival.text:
                raise fault
            return await accept(arrival, *more)

        replace_verb(monkeypatch, runtime.db, accept_message, trip)
        poison = wrote("poison", position=3)
        for _ in range(ATTEMPTS_MAX - 1):
            with pytest.raises(type(fault)):
                await chat.intake.receive(poison)
        assert await chat.intake.read_up_to("telegram:1") == {}, "nothing was acknowledged"
        assert await chat.intake.receive(poison) is IntakeOutcome.REFUSED
        [notice] = await chat.texts(1)
        assert "an internal error occurred" in notice
        trace = await runtime.trace(chat.sent[0].message)
        assert (trace.state, trace.reason) == (MessageState.REFUSED, "internal_error")
        assert await chat.intake.read_up_to("telegram:1") == {"77": (3, "10")}
        monkeypatch.undo()
        assert await chat.intake.receive(poison) is IntakeOutcome.DUPLICATE


async def test_a_fault_that_even_the_record_meets_is_never_acknowledged(tmp_path, monkeypatch):
    chat = Chat()
    async with await start(tmp_path, chat) as runtime:

        async def broken(*_):
            raise InvariantBroken("a bug")

        with monkeypatch.context() as now:
            replace_verb(now, runtime.db, accept_message, broken)
            for _ in range(3 * ATTEMPTS_MAX):
                with pytest.raises(InvariantBroken):
                    await chat.intake.receive(wrote())
        assert await chat.intake.receive(wrote()) is IntakeOutcome.TAKEN


async def test_somebody_whom_a_fault_kept_at_the_door_is_not_spoken_to(tmp_path, monkeypatch):
    chat = Chat()
    async with await start(tmp_path, chat, access=AccessPolicy(door=Door.CLOSED)) as runtime:

        async def broken(*_):
            raise InvariantBroken("a bug")

        replace_verb(monkeypatch, runtime.db, is_admitted, broken)
        for _ in range(ATTEMPTS_MAX - 1):
            with pytest.raises(InvariantBroken):
                await chat.intake.receive(wrote())
        assert await chat.intake.receive(wrote()) is IntakeOutcome.REFUSED
        assert list(await runtime.db.read(list_replies())) == []


async def test_an_id_that_no_platform_gives_blocks_no_other_message(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat):
        assert await chat.intake.receive(wrote(sender="")) is IntakeOutcome.IGNORED
        assert await chat.intake.receive(wrote()) is IntakeOutcome.TAKEN


async def test_a_group_that_got_another_id_keeps_its_session(tmp_path):
    chat = Chat()
    async with await start(tmp_path, chat) as runtime:
        await chat.intake.receive(wrote("before", chat="-9", chat_type="group"))
        await chat.texts(1)
        await chat.intake.moved("-9", "-1009", new_type="group")
        await chat.intake.moved("-9", "-1009", new_type="group")
        await chat.intake.receive(wrote("after", chat="-1009", chat_type="group", event_id="1"))
        await chat.texts(2)
        assert [one.turns for one in await runtime.sessions()] == [2]
        assert str(chat.sent[-1].address) == "agent:main:telegram:group:-1009"


async def test_a_channel_that_fails_is_started_again_and_says_why_meanwhile(tmp_path, monkeypatch):
    from holdfast.inbox import channels
    from holdfast.kernel.retry import RetryPolicy

    monkeypatch.setattr(channels, "RETRY", RetryPolicy(delay_ms_base=0))
    chat = Chat(ChannelFailed("the token was refused"), ChannelFailed("the token was refused"))
    async with await start(tmp_path, chat) as runtime:
        [connection] = runtime.channel_registry.connections()
        assert (chat.runs, connection.status.state, connection.status.reason) == (3, ConnectionState.UP, "as a test")
        chat.intake.disconnected("the socket closed")
        assert (connection.status.state, connection.status.reason) == (ConnectionState.DOWN, "the socket closed")


def connected_by(clock):
    status = ChannelStatus(agent=AgentName("main"), channel="telegram", since=clock.now())
    return ChannelConnection(status=status, clock=clock)


async def test_a_channel_that_cannot_go_on_is_down_for_the_reason_it_gives():
    clock, tasks, entropy = SystemClock(), AsyncTasks(), SystemEntropy()
    connection = connected_by(clock)
    intake: Any = None
    receiver = Receiver(Chat(ChannelFailed("the token was refused")), intake, connection, tasks, entropy)
    assert await receiver.step() is False
    assert (connection.status.state, connection.status.reason) == (ConnectionState.DOWN, "the token was refused")


def test_the_log_names_the_answer_once_without_its_words(caplog):
    connection = connected_by(SystemClock())
    for number in (1, 2):
        answer = vendor_error(502, {"x-request-id": f"req-{number}"}, "<p>no upstream</p>")
        connection.turn(ConnectionState.DOWN, "it is away", answer)
    [record] = [one for one in caplog.records if one.getMessage() == "channel.down"]
    assert record.fields | {"why": "it is away", "status": 502, "request_id": "req-1"} == record.fields
    assert "upstream" not in str(record.fields)
    assert connection.status.reason == "it is away (status 502; request id req-2; it said: no upstream)"
