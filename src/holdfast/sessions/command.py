"""Commands of a conversation: most wait in the mailbox in order; signals take effect on the open turn immediately.

A single line whose first word is almost a command is a typing error: the reply names the command that was probably
meant. Paths, text of several lines and words that resemble no command are plain text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class CommandVerb(Enum):
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


SIGNALS = frozenset({CommandVerb.STOP, CommandVerb.STATUS, CommandVerb.APPROVE, CommandVerb.DENY})
ALIASES: Mapping[str, CommandVerb] = {"reset": CommandVerb.NEW, **{verb.value: verb for verb in CommandVerb}}
HELP: Mapping[CommandVerb, tuple[str, str]] = {
    CommandVerb.NEW: ("/new", "end this session and start a new one (/reset is the same)"),
    CommandVerb.RESUME: ("/resume <title or id>", "continue an earlier session"),
    CommandVerb.BRANCH: ("/branch [title]", "continue in a branch of this session; the original stays unchanged"),
    CommandVerb.UNDO: ("/undo [n]", "undo the last n turns (effects of tools are not reversed)"),
    CommandVerb.RETRY: ("/retry", "undo the last turn and answer its message again"),
    CommandVerb.TITLE: ("/title <text>", "name this session"),
    CommandVerb.COMPRESS: ("/compress [focus]", "summarise older history now; the session stays the same"),
    CommandVerb.DELETE: ("/delete [word]", "close this session and erase everything said in it; asks for confirmation"),
    CommandVerb.STOP: ("/stop", "interrupt the running turn immediately"),
    CommandVerb.STATUS: ("/status", "show the running turn and the waiting messages immediately"),
    CommandVerb.APPROVE: ("/approve <id> [digest]", "run the waiting tool call with this id, once"),
    CommandVerb.DENY: ("/deny <id> [reason]", "do not run the tool call; the agent is told the reason"),
    CommandVerb.HELP: ("/help", "show this list"),
}
LEAD = " \t"  # allowed before a command: Slack treats a leading slash without it as its own command
SLIP = re.compile(r"/([a-z]{2,12})(?: [^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*)?", re.ASCII | re.IGNORECASE)
SHORT_LETTERS, MEDIUM_LETTERS = 3, 5  # longer words may be two edits away from the command
UNDO_TURNS_MAX = 100
UNDO_DIGITS_MAX = 9  # Python refuses to parse numbers of thousands of digits
TITLE_CHARS_MAX = 120


@dataclass(frozen=True, slots=True)
class Command:
    verb: CommandVerb
    argument: str = ""

    @property
    def is_signal(self) -> bool:
        return self.verb in SIGNALS

    @property
    def undo_turns(self) -> int | None:
        """The number of turns that `/undo` names; None if the argument is not a valid number."""
        if not self.argument:
            return 1
        if not self.argument.isascii() or not self.argument.isdigit() or len(self.argument) > UNDO_DIGITS_MAX:
            return None
        count = int(self.argument)
        return count if 1 <= count <= UNDO_TURNS_MAX else None


def parse_command(text: str) -> Command | None:
    """The command in `text`, a known word directly after a slash; None for plain text."""
    said = text.lstrip(LEAD)
    if not said.startswith("/"):
        return None
    word, _, argument = said[1:].rstrip().partition(" ")
    verb = ALIASES.get(word.lower())
    return Command(verb, argument.strip()) if verb else None


def meant_by(text: str) -> CommandVerb | None:
    """The command that a mistyped word probably means; None for a correct command and for plain text."""
    found = SLIP.fullmatch(text.strip(LEAD + "\r\n")) if parse_command(text) is None else None
    if found is None or text.lstrip(LEAD).startswith("\n"):
        return None
    word = found[1].lower()
    near = {name: edits(word, name) for name in ALIASES if is_near(word, name)}
    return ALIASES[min(near, key=lambda name: (near[name], name))] if near else None


def is_near(word: str, name: str) -> bool:
    """Whether a word is a likely typing error of a command.

    In a very short word only transposed letters count: another letter often makes another word (`/now`).
    """
    letters = max(len(word), len(name))
    if letters <= SHORT_LETTERS and len(word) == len(name):
        return sorted(word) == sorted(name) and edits(word, name) == 1
    return edits(word, name) <= (1 if letters <= MEDIUM_LETTERS else 2)


def edits(one: str, other: str) -> int:
    """The number of letters to insert, delete, replace or swap with a neighbour (optimal string alignment)."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def help_text() -> str:
    width = max(len(usage) for usage, _ in HELP.values())
    return "\n".join(f"{usage:<{width}}  {what}" for usage, what in HELP.values())
