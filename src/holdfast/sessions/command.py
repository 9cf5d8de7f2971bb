"""Commands: conversation commands stand in the mailbox in order; signals reach the open turn at once.

A single line whose first word is nearly a command is a slip: it is answered with the command that was meant. Paths,
sentences over several lines and words that resemble no command are plain text.
"""

import re
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
    Verb.DELETE: ("/delete [word]", "close this session and blank everything said in it; asks once more"),
    Verb.STOP: ("/stop", "interrupt the running turn, at once"),
    Verb.STATUS: ("/status", "what is running and waiting, at once"),
    Verb.APPROVE: ("/approve <id> [digest]", "let the tool call that waits under this id run, once"),
    Verb.DENY: ("/deny <id> [reason]", "do not let it run; the agent is told the reason"),
    Verb.HELP: ("/help", "this list"),
}
LEAD = " \t"  # before a command: in Slack, people put a space before a slash that Slack would keep to itself
SLIP = re.compile(r"/([a-z]{2,12})(?: [^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*)?", re.ASCII | re.IGNORECASE)
SHORT_LETTERS, MEDIUM_LETTERS = 3, 5  # a slip in a word that is longer may be two edits away
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


def meant_by(text: str) -> Verb | None:
    """The command that a slip of the finger stands for; None for a command that is spelt right and for plain text."""
    found = SLIP.fullmatch(text.strip(LEAD + "\r\n")) if parse_command(text) is None else None
    if found is None or text.lstrip(LEAD).startswith("\n"):
        return None
    word = found[1].lower()
    near = {name: edits(word, name) for name in ALIASES if is_near(word, name)}
    return ALIASES[min(near, key=lambda name: (near[name], name))] if near else None


def is_near(word: str, name: str) -> bool:
    """Another letter in a very short word makes another word (`/now`), so there only its own letters may be moved."""
    letters = max(len(word), len(name))
    if letters <= SHORT_LETTERS and len(word) == len(name):
        return sorted(word) == sorted(name) and edits(word, name) == 1
    return edits(word, name) <= (1 if letters <= MEDIUM_LETTERS else 2)


def edits(one: str, other: str) -> int:
    """How many letters are to be added, left out, exchanged or swapped with their neighbour (optimal alignment)."""
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
