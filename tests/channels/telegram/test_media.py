"""What comes with a message is kept when it can be had in time, and named when it cannot. It never holds the message
back."""

import asyncio

import pytest

from holdfast.channels.telegram import bot_api, receiving
from holdfast.inbox.chat_message import ATTACHMENT_BYTES_MAX
from tests.platforms.telegram import Drop, Hold, Page, Refuse


@pytest.fixture
def give(server, bot):
    user = server.user("Bob")
    chat = server.private(bot, user)
    return lambda kind, body, **more: server.hand_over(chat, user, kind, body, **more)


async def attachment(ada):
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    [message] = ada.ear.taken
    [file] = message.attachments
    return file


KINDS = [
    ("document", {"file_name": "notes.txt", "mime_type": "text/plain"}, "notes.txt", "text/plain"),
    ("document", {}, "document", "application/octet-stream"),
    ("photo", {}, "photo.jpg", "image/jpeg"),
    ("voice", {"mime_type": "audio/ogg"}, "voice.ogg", "audio/ogg"),
    ("audio", {"file_name": "song.mp3", "mime_type": "audio/mpeg"}, "song.mp3", "audio/mpeg"),
    ("video", {}, "video.mp4", "video/mp4"),
    ("video_note", {}, "video.mp4", "video/mp4"),
    ("animation", {}, "animation.mp4", "video/mp4"),
    ("sticker", {"emoji": "😀"}, "sticker.webp", "image/webp"),
    ("sticker", {"is_animated": True}, "sticker.tgs", "application/x-tgsticker"),
    ("sticker", {"is_video": True}, "sticker.webm", "video/webm"),
]


@pytest.mark.parametrize("case", KINDS, ids=str)
async def test_every_kind_of_file_is_fetched(ada, give, case):
    kind, fields, name, media_type = case
    give(kind, b"the bytes", **fields)
    file = await attachment(ada)
    assert (file.name, file.media_type, file.size, file.body) == (name, media_type, 9, b"the bytes")


async def test_the_largest_size_of_a_photo_is_taken_with_its_caption(ada, give):
    give("photo", b"large jpeg", caption="the harbour")
    assert (await attachment(ada)).body == b"large jpeg"
    assert ada.ear.texts == ["the harbour"]


async def test_an_album_is_several_messages(ada, give):
    for number in range(3):
        give("photo", f"picture {number}".encode(), media_group_id="album")
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    assert [message.attachments[0].body for message in ada.ear.taken] == [b"picture 0", b"picture 1", b"picture 2"]


async def test_a_file_that_says_it_is_too_large_is_named_and_not_asked_for(ada, give):
    give("document", b"small", file_name="film.mkv", size=ATTACHMENT_BYTES_MAX + 1)
    file = await attachment(ada)
    assert (file.name, file.size, file.body) == ("film.mkv", ATTACHMENT_BYTES_MAX + 1, None)
    assert ada.bot.called("getFile") == []


async def test_a_file_that_is_larger_than_it_said_is_not_read_to_its_end(ada, give, monkeypatch):
    monkeypatch.setattr(receiving, "ATTACHMENT_BYTES_MAX", 1000)
    give("document", b"x" * 5000, size=10)
    assert (await attachment(ada)).body is None


FAULTS = [
    ("getFile", Refuse(400, "Bad Request: file is too big")),
    ("getFile", Page(502)),
    ("getFile", Page(200, '{"ok": true, "result": {"file_size": "many"}}')),
    ("getFile", Page(200, '{"ok": true, "result": {}}')),
    ("getFile", Drop(after=True)),
    ("file", Page(404)),
    ("file", Page(302, "")),
    ("file", Drop(after=False)),
]


@pytest.mark.parametrize(("method", "fault"), FAULTS, ids=str)
async def test_a_file_that_cannot_be_had_is_named(ada, give, method, fault):
    ada.bot.fail(method, fault)
    give("document", b"the bytes", file_name="notes.txt", caption="my notes")
    file = await attachment(ada)
    assert (file.name, file.size, file.body) == ("notes.txt", 9, None)
    assert ada.ear.texts == ["my notes"]


async def test_a_download_that_hangs_is_given_up(ada, give, monkeypatch):
    monkeypatch.setattr(bot_api, "DOWNLOAD_S", 0.05)
    ada.bot.fail("file", Hold(asyncio.Event()))
    give("document", b"the bytes", caption="my notes")
    assert (await attachment(ada)).body is None


async def test_a_batch_has_so_much_time_for_files_and_no_more(ada, give, monkeypatch):
    """A hundred slow files must not stop a bot for half an hour."""

    async def slow(self, file_id, bytes_max):
        ada.clock.ms += 20_000
        return b"the bytes"

    monkeypatch.setattr(bot_api.BotApi, "download", slow)
    for _ in range(5):
        give("document", b"the bytes")
    async with ada.running():
        await ada.server.until(lambda: not ada.bot.pending)
    bodies = [message.attachments[0].body for message in ada.ear.taken]
    assert bodies == [b"the bytes", b"the bytes", None, None, None]
