"""A message's text, and whether it addresses this bot. Pure.

Rule 1: entities count UTF-16 code units, so texts are cut as UTF-16.
Rule 2: user names are compared case-insensitively, as Telegram does.
Rule 3: a mention at the beginning and `@bot` after a command only call the bot, and are removed.
"""

from holdfast.channels.telegram.wire import BotAccount, Entity, TelegramMessage

PRIVATE = "private"


def clean(text: str) -> str:
    """The text with every lone surrogate replaced, because it cannot be encoded."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def cut(text: str, start: int, end: int | None = None) -> str:
    """A slice of the text, in UTF-16 code units."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * start : None if end is None else 2 * end].decode("utf-16-le", "replace")


class MessageText:
    """A message's text or caption with its entities, as this bot reads it."""

    def __init__(self, message: TelegramMessage, me: BotAccount) -> None:
        captioned = not message.text
        self._message = message
        self._me = me
        self._raw = message.caption if captioned else message.text
        self._entities = message.caption_entities if captioned else message.entities

    def text(self) -> str:
        """The text without the call to the bot, unless that is all of it."""
        command = self._command()
        if command is not None:
            name, _, bot = self._text_of(command).partition("@")
            return clean(name + cut(self._raw, command.length)) if bot and self._is_me(bot) else clean(self._raw)
        first = next((entity for entity in self._entities if entity.offset == 0 and self._mentions(entity)), None)
        rest = cut(self._raw, first.length).lstrip(" \t\r\n,:") if first is not None else ""
        return clean(rest or self._raw)

    def addressed(self) -> bool:
        """Whether the message is private, mentions the bot, replies to it, or is a command not for another bot."""
        if self._message.chat.type == PRIVATE:
            return True
        command = self._command()
        if command is not None:
            bot = self._text_of(command).partition("@")[2]
            return not bot or self._is_me(bot)
        return self._is_reply() or any(self._mentions(entity) for entity in self._entities)

    def _command(self) -> Entity | None:
        """The command at the beginning of the message. A command inside a sentence is only a mention of it."""
        return next((found for found in self._entities if found.type == "bot_command" and found.offset == 0), None)

    def _mentions(self, entity: Entity) -> bool:
        if entity.type == "text_mention":
            return entity.user is not None and entity.user.id == self._me.id
        return entity.type == "mention" and self._is_me(self._text_of(entity).removeprefix("@"))

    def _is_reply(self) -> bool:
        """Whether the message replies to the bot. In a topic, every message replies to the one that opened it."""
        replied = self._message.reply_to_message
        if replied is None or replied.from_ is None or replied.from_.id != self._me.id:
            return False
        return not (self._message.is_topic_message and replied.message_id == self._message.message_thread_id)

    def _text_of(self, entity: Entity) -> str:
        return cut(self._raw, entity.offset, entity.offset + entity.length)

    def _is_me(self, username: str) -> bool:
        return bool(self._me.username) and username.lower() == self._me.username.lower()
