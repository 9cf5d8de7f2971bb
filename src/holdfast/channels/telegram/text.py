"""The words of a message, and whether they are said to this bot. Values in, values out.

Rule 1: entities count UTF-16 units, so a text is cut as UTF-16.
Rule 2: user names are compared without regard to case, as Telegram does.
Rule 3: what only summons the bot is taken off: a mention at the beginning, and `@bot` behind a command.
"""

from holdfast.channels.telegram.wire import BotAccount, Entity, TelegramMessage

PRIVATE = "private"


def clean(text: str) -> str:
    """The text with every lone surrogate replaced: no encoding has a place for it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf16_units(text: str) -> int:
    """How Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, start: int, end: int | None = None) -> str:
    """A stretch of the text, in UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * start : None if end is None else 2 * end].decode("utf-16-le", "replace")


class Words:
    """A message's text or caption with its entities, as this bot reads it."""

    def __init__(self, message: TelegramMessage, me: BotAccount) -> None:
        captioned = not message.text
        self._message = message
        self._me = me
        self._raw = message.caption if captioned else message.text
        self._entities = message.caption_entities if captioned else message.entities

    def text(self) -> str:
        """The words without what only summons the bot, unless nothing else is said."""
        command = self._command()
        if command is not None:
            name, _, bot = self._said(command).partition("@")
            return clean(name + cut(self._raw, command.length)) if bot and self._is_me(bot) else clean(self._raw)
        first = next((entity for entity in self._entities if entity.offset == 0 and self._mentions(entity)), None)
        rest = cut(self._raw, first.length).lstrip(" \t\r\n,:") if first is not None else ""
        return clean(rest or self._raw)

    def addressed(self) -> bool:
        """Said in private, by mention, as an answer to the bot, or as a command that is not another bot's."""
        if self._message.chat.type == PRIVATE:
            return True
        command = self._command()
        if command is not None:
            bot = self._said(command).partition("@")[2]
            return not bot or self._is_me(bot)
        return self._is_answer() or any(self._mentions(entity) for entity in self._entities)

    def _command(self) -> Entity | None:
        """The command that the message is, if it is one: those inside a sentence are only talked about."""
        return next((found for found in self._entities if found.type == "bot_command" and found.offset == 0), None)

    def _mentions(self, entity: Entity) -> bool:
        if entity.type == "text_mention":
            return entity.user is not None and entity.user.id == self._me.id
        return entity.type == "mention" and self._is_me(self._said(entity).removeprefix("@"))

    def _is_answer(self) -> bool:
        """In a topic every message answers the one that opened it, which says nothing."""
        replied = self._message.reply_to_message
        if replied is None or replied.from_ is None or replied.from_.id != self._me.id:
            return False
        return not (self._message.is_topic_message and replied.message_id == self._message.message_thread_id)

    def _said(self, entity: Entity) -> str:
        return cut(self._raw, entity.offset, entity.offset + entity.length)

    def _is_me(self, username: str) -> bool:
        return bool(self._me.username) and username.lower() == self._me.username.lower()
