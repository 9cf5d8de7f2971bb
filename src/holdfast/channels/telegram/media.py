"""What came with a message: which file, under which name, and its bytes if they can be had in time.

A file that is too large, gone, or slow is named without its bytes. A message is never held back for long by its file:
each download has its limit (calls.DOWNLOAD_S), and all of one batch share another.
"""

from dataclasses import dataclass

from holdfast.channels.telegram.text import clean
from holdfast.channels.telegram.wire import Media, TelegramMessage

NAME_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    file_id: str
    name: str
    media_type: str
    bytes: int


PLAIN = {  # kind to the name and type of a file that has none; an animation is also shown as a document
    "animation": ("animation.mp4", "video/mp4"),
    "video": ("video.mp4", "video/mp4"),
    "video_note": ("video.mp4", "video/mp4"),
    "voice": ("voice.ogg", "audio/ogg"),
    "audio": ("audio.mp3", "audio/mpeg"),
    "document": ("document", "application/octet-stream"),
}


def enclosed(message: TelegramMessage) -> Parcel | None:
    """The file of a message, which has one at most; an album is several messages."""
    if message.photo:
        return _parcel(max(message.photo, key=lambda size: size.file_size), "photo.jpg", "image/jpeg")
    if message.sticker is not None:
        return _parcel(message.sticker, *_sticker(message.sticker))
    kind = next((kind for kind in PLAIN if getattr(message, kind) is not None), None)
    return None if kind is None else _parcel(getattr(message, kind), *PLAIN[kind])


def _sticker(sticker: Media) -> tuple[str, str]:
    if sticker.is_animated:
        return "sticker.tgs", "application/x-tgsticker"
    return ("sticker.webm", "video/webm") if sticker.is_video else ("sticker.webp", "image/webp")


def _parcel(media: Media, name: str, media_type: str) -> Parcel:
    return Parcel(
        file_id=media.file_id,
        name=clean(media.file_name)[:NAME_CHARS_MAX] or name,
        media_type=clean(media.mime_type)[:NAME_CHARS_MAX] or media_type,
        bytes=max(media.file_size, 0),
    )
