"""Commands: conversation commands stand in the mailbox in order; signals reach the open turn at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Verb(Enum):
    NEW = "new"
    RESUME = "resume"
    BRANCH = "branch"
    UNDO = "undo"
    RETRY = "retry"
    TITLE = "title"
    COMPRESS = "compress"
    DELETE = "delete"
    HELP = "help"
    STOP = "stop"
    STATUS = "status"
    APPROVE = "approve"
    DENY = "deny"


SIGNALS = frozenset({Verb.STOP, Verb.STATUS, Verb.APPROVE, Verb.DENY})
ALIASES: Mapping[str, Verb] = {"reset": Verb.NEW, **{verb.value: verb for verb in Verb}}
HELP: Mapping[Verb, tuple[str, str]] = {
    Verb.NEW: ("/new", "end this session and start a fresh one (/reset is the same)"),
    Verb.RESUME: ("/resume <title or id>", "go on with an earlier session"),
    Verb.BRANCH: ("/branch [title]", "go on in a copy-free branch; the original stays as it is"),
    Verb.UNDO: ("/undo [n]", "take back the last n turns (tools' effects are not reversed)"),
    Verb.RETRY: ("/retry", "take back the last turn and answer it again"),
    Verb.TITLE: ("/title <text>", "name this session"),
    Verb.COMPRESS: ("/compress [focus]", "summarise older history now; the session stays the same"),
    Verb.DELETE: ("/delete", "close this session and blank everything said in it"),
    Verb.STOP: ("/stop", "interrupt the running turn, at once"),
    Verb.STATUS: ("/status", "what is running and waiting, at once"),
    Verb.APPROVE: ("/approve <id>", "let the tool call that waits under this id run, once"),
    Verb.DENY: ("/deny <id> [reason]", "do not let it run; the agent is told the reason"),
    Verb.HELP: ("/help", "this list"),
}
LEAD = " \t"  # before a command: in Slack, people put a space before a slash that Slack would keep to itself
UNDO_TURNS_MAX = 100
UNDO_DIGITS_MAX = 9  # Python refuses to read a number of thousands of digits
TITLE_CHARS_MAX = 120


@dataclass(frozen=True, slots=True)
class Command:
    verb: Verb
    argument: str = ""

    @property
    def is_signal(self) -> bool:
        return self.verb in SIGNALS

    @property
    def undo_turns(self) -> int | None:
        """How many turns `/undo` names; None when the argument is no such number."""
        if not self.argument:
            return 1
        if not self.argument.isascii() or not self.argument.isdigit() or len(self.argument) > UNDO_DIGITS_MAX:
            return None
        count = int(self.argument)
        return count if 1 <= count <= UNDO_TURNS_MAX else None


def parse_command(text: str) -> Command | None:
    """The command that `text` is, if it is one: a known word right after a slash. Anything else is plain text."""
    said = text.lstrip(LEAD)
    if not said.startswith("/"):
        return None
    word, _, argument = said[1:].rstrip().partition(" ")
    verb = ALIASES.get(word.lower())
    return Command(verb, argument.strip()) if verb else None


def help_text() -> str:
    width = max(len(usage) for usage, _ in HELP.values())
    return "\n".join(f"{usage:<{width}}  {what}" for usage, what in HELP.values())
