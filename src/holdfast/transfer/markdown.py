"""A session as Markdown, for people: who said what and when, with tool calls in short. It cannot be imported.

Text of people is quoted line by line, so that nothing that somebody wrote looks like a heading or a speaker. Characters
that steer a terminal or reverse the order of text are replaced.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from holdfast.kernel.ids import Instant
from holdfast.sessions.session import Session
from holdfast.turns.journal import AssistantSaid, Entry, EntryView, Noticed, Observed, SpokenBody, ToolReturned

RESULT_CHARS_MAX = 2_000
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MARKUP = r"\`*_[]<>#"
When: TypeAlias = Callable[[Instant], str]


def session_markdown(session: Session, entries: Sequence[EntryView], when: When) -> str:
    """`when` tells a time, in UTC."""
    about = [f"- Session `{session.id}` of {session.agent}, {session.state.value}"]
    about.append(f"- Opened {when(session.opened_at)}, last active {when(session.active_at)}")
    if session.parent:
        about.append(f"- Branched from `{session.parent}`")
    parts = [f"# {_one_line(session.title or session.id)}", "\n".join(about)]
    parts += [text for view in entries if (text := _entry(view.entry, when, undone=view.undone))]
    return _STEERING.sub("\ufffd", "\n\n".join(parts)) + "\n"


def _entry(entry: Entry, when: When, *, undone: bool) -> str:
    mark = " (undone)" if undone else ""
    match entry.body:
        case SpokenBody() as said:
            heard = " (overheard)" if isinstance(said, Observed) else ""
            return f"**{_one_line(said.speaker)}**, {when(entry.at)}{heard}{mark}\n\n{_quoted(said.text)}"
        case AssistantSaid() as said:
            calls = "".join(f"\n\nCalled {_code(call.name)} with {_code(call.arguments)}" for call in said.calls)
            words = f"\n\n{_quoted(said.text)}" if said.text else ""
            return f"**Agent**, {when(entry.at)}{mark}{words}{calls}"
        case ToolReturned() as result:
            cut = result.text if len(result.text) <= RESULT_CHARS_MAX else f"{result.text[:RESULT_CHARS_MAX]}…"
            return f"{_code(result.name)} returned ({result.outcome}){mark}\n\n{_quoted(cut)}"
        case Noticed(text=text):
            return f"*Notice*, {when(entry.at)}{mark}\n\n{_quoted(text)}"
    return ""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or ">"


def _one_line(text: str) -> str:
    return "".join(f"\\{char}" if char in MARKUP else char for char in " ".join(text.split()))


def _code(text: str) -> str:
    """A code span with a longer fence than any run of backticks in the text."""
    runs = "".join(char if char == "`" else " " for char in text).split()
    fence = "`" * (max(map(len, runs), default=0) + 1)
    return f"{fence} {' '.join(text.split())} {fence}"
