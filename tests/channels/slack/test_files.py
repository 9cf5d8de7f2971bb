"""Attachments are kept within limits, and the token is sent to Slack's own hosts only."""

import pytest

from holdfast.channels.slack import files as slack_files
from holdfast.channels.slack.files import is_slack_url
from tests.channels.slack.kit import running
from tests.platforms.slack import FakeSlack, Fault


async def taken(world, *files, text="look"):
    async with running(world.slack, world.bot, world.mailbox):
        world.slack.say(world.dm, world.ada, text, files=files)
        await world.mailbox.until(lambda: world.mailbox.taken)
    return world.mailbox.taken[0]


async def test_a_file_comes_with_its_caption_and_its_bytes(world):
    message = await taken(world, world.slack.upload("a.txt", b"body"))
    (file,) = message.attachments
    assert message.text == "look"
    assert (file.name, file.media_type, file.size, file.body) == ("a.txt", "text/plain", 4, b"body")


async def test_a_file_without_a_caption_is_a_message_too(world):
    message = await taken(world, world.slack.upload("a.txt", b"body"), text="")
    assert (message.text, len(message.attachments)) == ("", 1)


async def test_a_file_that_says_it_is_too_large_is_not_fetched(world):
    message = await taken(world, world.slack.upload("a.txt", b"body", size=30_000_000))
    assert (message.attachments[0].size, message.attachments[0].body) == (30_000_000, None)
    assert "file" not in [method for method, _ in world.slack.requests]


async def test_more_files_than_are_kept_are_named_and_not_fetched(world, monkeypatch):
    monkeypatch.setattr(slack_files, "ATTACHMENTS_MAX", 1)
    message = await taken(world, *(world.slack.upload(f"{n}.txt", b"x") for n in range(3)))
    kept = [(one.name, one.body) for one in message.attachments]
    assert kept == [("0.txt", b"x"), ("1.txt", None), ("2.txt", None)]


async def test_a_file_that_turns_out_too_large_is_dropped_on_the_way(world, monkeypatch):
    monkeypatch.setattr(slack_files, "ATTACHMENT_BYTES_MAX", 1_000)
    message = await taken(world, world.slack.upload("a.txt", b"x" * 100_000, size=10))
    assert message.attachments[0].body is None


async def test_a_file_elsewhere_is_named_and_never_asked_for(world):
    async with FakeSlack() as elsewhere:
        file = elsewhere.upload("a.txt", b"body")
        message = await taken(world, file)
        assert (message.attachments[0].name, message.attachments[0].body) == ("a.txt", None)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("fault", "body"),
    [
        (Fault("file", status=503), b"body"),
        (Fault("file", cut=True), b"body"),
        (Fault("file", status=503, times=9), None),
        (Fault("file", status=302, headers={"Location": "/login"}), None),
        (Fault("file", status=403), None),
    ],
)
async def test_a_file_that_cannot_be_had_does_not_hold_up_its_message(world, fault, body):
    world.slack.faults = [Fault(**vars(fault))]
    message = await taken(world, world.slack.upload("a.txt", b"body"))
    assert (message.text, message.attachments[0].body) == ("look", body)


async def test_few_files_are_in_memory_however_many_conversations_bring_some(world):
    rooms = [world.slack.room(world.bot) for _ in range(slack_files.AT_ONCE_MAX + 3)]
    async with running(world.slack, world.bot, world.mailbox):
        for room in rooms:
            world.mailbox.shut(room)
            world.slack.say(room, world.ada, "look", files=[world.slack.upload("a.txt", b"x")])
        for n in range(20):  # a download would have happened by then
            world.slack.say(world.dm, world.ada, f"{n}")
            await world.mailbox.until(lambda: len(world.mailbox.taken) > n)  # noqa: B023 - awaited here
        assert [method for method, _ in world.slack.requests].count("file") == slack_files.AT_ONCE_MAX
        for room in rooms:
            world.mailbox.open(room)
        await world.mailbox.until(lambda: len(world.mailbox.taken) == 20 + len(rooms))


async def test_a_file_that_never_ends_does_not_hold_up_its_message(world, monkeypatch):
    monkeypatch.setattr(slack_files, "MESSAGE_S", 0.05)
    world.slack.faults = [Fault("file", stall=True)]
    message = await taken(world, world.slack.upload("a.txt", b"a"), world.slack.upload("b.txt", b"b"))
    assert [(file.name, file.body) for file in message.attachments] == [("a.txt", None), ("b.txt", None)]


@pytest.mark.parametrize(
    ("url", "is_so"),
    [
        ("https://files.slack.com/files-pri/T1-F1/a.txt", True),
        ("https://slack.com/a", True),
        ("http://files.slack.com/a", False),
        ("https://files.slack.com:8443/a", False),
        ("https://files.slack.com.evil.example/a", False),
        ("https://evilslack.com/a", False),
        ("https://files.slack.com@evil.example/a", False),
        ("https://[/a", False),
        ("", False),
    ],
)
def test_the_token_goes_to_slack_only(url, is_so):
    assert is_slack_url(url, "https://slack.com/api") == is_so
