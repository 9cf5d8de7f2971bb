"""The file of a message: its id on Telegram, its name and its type."""

from holdfast.channels.telegram.text import clean
from holdfast.channels.telegram.wire import Media, TelegramMessage
from holdfast.inbox.chat_message import Attachment

NAME_CHARS_MAX = 200
DEFAULTS = {  # the name and type of a file that has none, by kind; an animation is also shown as a document
    "animation": ("animation.mp4", "video/mp4"),
    "video": ("video.mp4", "video/mp4"),
    "video_note": ("video.mp4", "video/mp4"),
    "voice": ("voice.ogg", "audio/ogg"),
    "audio": ("audio.mp3", "audio/mpeg"),
    "document": ("document", "application/octet-stream"),
}


def file_of(message: TelegramMessage) -> tuple[str, Attachment] | None:
    """The file's id, and the attachment without its body. A message has at most one; an album is several messages."""
    if message.photo:
        return _file(max(message.photo, key=lambda size: size.file_size), "photo.jpg", "image/jpeg")
    if message.sticker is not None:
        return _file(message.sticker, *_sticker(message.sticker))
    kind = next((kind for kind in DEFAULTS if getattr(message, kind) is not None), None)
    return None if kind is None else _file(getattr(message, kind), *DEFAULTS[kind])


def _sticker(sticker: Media) -> tuple[str, str]:
    if sticker.is_animated:
        return "sticker.tgs", "application/x-tgsticker"
    return ("sticker.webm", "video/webm") if sticker.is_video else ("sticker.webp", "image/webp")


def _file(media: Media, name: str, media_type: str) -> tuple[str, Attachment]:
    return media.file_id, Attachment(
        name=clean(media.file_name)[:NAME_CHARS_MAX] or name,
        media_type=clean(media.mime_type)[:NAME_CHARS_MAX] or media_type,
        size=max(media.file_size, 0),
    )
