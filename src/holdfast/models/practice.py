"""The practice model: offline and deterministic, for demos and tests.

It repeats facts of the conversation ("my cat is called Byron"), answers questions from the context, including recalled
facts, calls a tool on request (`use clock {}`), and writes extractive summaries. It says when it cannot answer.

Extraction makes notes of sentences that match the patterns of facts. It does not recognise two notes with the same
meaning. A consolidation removes notes that another one contains word for word, and adds none.

A summary consists of sentences selected by patterns, without any rewording:

Rule 1: lines with names, numbers, dates, promises, decisions or preferences are kept longest.
Rule 2: the weight of a line depends on the line alone, so lines of an earlier summary weigh the same as new ones.
Rule 3: a correction replaces the line that it corrects, if shared words identify that line.
Rule 4: the newest lines stand last, and the length is bounded.

Sentences, facts and words of a text are found by regular expressions. Every repetition in them is bounded or stands
alone, so that matching takes linear time on any message.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence

from holdfast.sessions.extraction import CONSOLIDATE_MARK, NOTES_MARK, TALK_MARK
from holdfast.turns.context import SUMMARY, ModelMessage
from holdfast.turns.journal import ToolCall, estimate_tokens
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, ModelTask, TextDelta, ToolSpec
from holdfast.turns.turn import Usage

NOTES_MAX = 16
NOTE_CHARS_MAX = 200
# In a shared chat a text begins with its speaker.
_USE = re.compile(
    r"(?:[^\n]{1,200}?: )?use (?P<name>[\w.-]+)(?:\s*(?P<arguments>\{.*\}))?\Z", re.IGNORECASE | re.DOTALL
)


class PracticeModel:
    """Implements `Model`. The same request always gets the same answer."""

    name = "practice"

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        messages, calls = request.messages, list[ToolCall]()
        match request.task:
            case ModelTask.SUMMARY:
                text = extractive_summary(messages)
            case ModelTask.EXTRACT:
                text = extract(messages)
            case _:
                text, calls = reply(messages, request.tools)
        for word in re.findall(r"\S+\s*", text):
            yield TextDelta(word)
        read = sum(estimate_tokens(message.content) for message in messages)
        written = estimate_tokens(text + "".join(call.name for call in calls))
        yield ModelAnswer(text=text, calls=tuple(calls), usage=Usage(tokens_in=read, tokens_out=written))


def reply(messages: Sequence[ModelMessage], tools: Sequence[ToolSpec]) -> tuple[str, list[ToolCall]]:
    """The text of an answer, and the tool that it calls."""
    newest = max((n for n, message in enumerate(messages) if not message.data), default=-1)
    if newest >= 0 and messages[newest].role == "tool":
        looked_up = "".join(f"\n{data.content}" for data in messages[newest + 1 :])  # such as a recall by a tool
        return f"The tool {messages[newest].name} answered: {messages[newest].content}{looked_up}", []
    said = max((n for n, message in enumerate(messages) if message.role == "user" and not message.data), default=-1)
    asked = messages[said].content if said >= 0 else ""
    if wanted := _USE.match(asked.strip()):
        return _use(wanted["name"], wanted["arguments"] or "{}", len(messages), tools)
    if asked.rstrip().endswith("?"):
        others = [message for n, message in enumerate(messages) if message.role != "assistant" and n != said]
        return _answer_question(asked, others), []
    if told := facts(asked):
        return f"Noted: {'; '.join(told)}.", []
    return f"You said: {asked.strip()} (I am the practice model: configure a real one to talk.)", []


def _use(name: str, arguments: str, number: int, tools: Sequence[ToolSpec]) -> tuple[str, list[ToolCall]]:
    if name not in {tool.name for tool in tools}:
        known = ", ".join(tool.name for tool in tools) or "none"
        return f"There is no tool {name}; I have: {known}.", []
    return "", [ToolCall(id=f"call_{number}", name=name, arguments=arguments)]


def _answer_question(asked: str, messages: Sequence[ModelMessage]) -> str:
    """The sentence of the messages that shares most words with the question."""
    wanted = keywords(asked)
    best, best_score = "", 0
    for message in messages:
        for sentence in _SENTENCE_END.split(message.content):
            score = len(wanted & keywords(sentence))
            if score >= max(best_score, 1) and not sentence.rstrip().endswith("?"):
                best, best_score = sentence, score
    return f"You told me: {best.strip()}" if best else "I do not know that; nothing in our conversation says so."


def extract(messages: Sequence[ModelMessage]) -> str:
    """The answer to an extraction request, in its documented JSON shape."""
    task = messages[0].content if messages else ""
    head, _, talk = (messages[-1].content if messages else "").partition(f"\n{TALK_MARK}\n")
    notes = list(_values(head.removeprefix(NOTES_MARK)))
    changes = _consolidated(notes) if CONSOLIDATE_MARK in task else _added(notes, _values(talk))
    return json.dumps({"changes": changes}, ensure_ascii=False)


def _values(lines: str) -> Iterator[dict[str, object]]:
    for line in lines.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # a request without our format
            continue
        if isinstance(value, dict):
            yield value


def _added(notes: list[dict[str, object]], talk: Iterator[dict[str, object]]) -> list[dict[str, object]]:
    known = {str(note.get("text", "")).casefold() for note in notes}
    found: dict[str, str] = {}
    for line in talk:
        if line.get("role") == "user":
            found.update((fact[:NOTE_CHARS_MAX], _target(fact)) for fact in facts(str(line.get("text", ""))))
    fresh = [(text, target) for text, target in found.items() if text.casefold() not in known]
    return [{"verb": "add", "target": target, "text": text} for text, target in fresh[-NOTES_MAX:]]


def _target(fact: str) -> str:
    """A first-person fact is about the user; every other is about the work."""
    return "user" if fact.casefold().startswith(("i ", "i'm", "my ")) else "memory"


def _consolidated(notes: list[dict[str, object]]) -> list[dict[str, object]]:
    free = [note for note in notes if "fixed" not in note]
    held = [
        note
        for note in free
        if any(note is not other and _contains(other, note) and note["target"] == other["target"] for other in free)
    ]
    return [{"verb": "remove", "entries": [note["entry"]]} for note in held]


def _contains(larger: dict[str, object], smaller: dict[str, object]) -> bool:
    whole, part = str(larger.get("text", "")), str(smaller.get("text", ""))
    return len(whole) > len(part) and part in whole


# --- sentences, facts and summaries ---------------------------------------------------------------

FACT = re.compile(
    r"\b(?:my|our|the|his|her)(?:\s{1,4}[\w'-]{1,30}){1,8}?\s{1,4}(?:is|are|was|were|lives?|likes?)\b[^.!?\n]{1,160}"
    r"|\bI(?:'m| am| live| like| love| have| work| need| prefer)\b[^.!?\n]{1,160}"
    r"|\bremember (?:that )?[^.!?\n]{1,160}",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_WORD = re.compile(r"[\w']+")
_COMMON = frozenset(
    {
        *("a", "an", "and", "are", "called", "did", "do", "does", "for", "have", "i", "in", "is", "it", "me", "my"),
        *("name", "of", "on", "our", "remember", "say", "tell", "that", "the", "to", "was", "we", "were", "what"),
        *("when", "where", "which", "who", "why", "you", "your", "about", "know", "can", "how", "s", "what's"),
    }
)
EARLIER = "Earlier summary:\n"  # the first line of an earlier summary in a request
NOTHING = "- (nothing worth keeping was said)"
LINE_CHARS_MAX = 200
# A summariser does not know its limit; a summary above a fifth of the window is refused. A fifth of the request is
# never above it, nor is the length of the earlier summary. In a short conversation every line fits.
SUMMARY_SHARE = 5
SUMMARY_CHARS_MIN = 2_000
RARE_MAX = 20  # a word in more lines than this identifies none of them

_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,30}\b|\b[A-Z][a-z]{2,30}'s\b")
_WEIGHTY = re.compile(
    r"\b(?:promised?|will|i'll|decided?|agreed?|choose|chose|chosen|prefers?|likes?|loves?|hates?|always|never|must"
    r"|remember|allergic|deadline|birthday|named|called)\b",
    re.IGNORECASE,
)
_PROMISE = re.compile(r"\bI(?:'ll| will| promise| have promised| am going to)\b")
_CORRECTION = re.compile(
    r"\b(?:correction|corrected|actually|wrong|mistaken|i meant|moved to|changed|instead|no longer|not any ?more)\b",
    re.IGNORECASE,
)
_LONG_NUMBER = re.compile(r"\d{3}|\d[.,:/-]\d")
_SHORT_NUMBER = re.compile(r"\d")


def facts(text: str) -> list[str]:
    return [match.group(0).strip() for match in FACT.finditer(text)]


def keywords(text: str) -> set[str]:
    return {word.lower().removesuffix("'s") for word in _WORD.findall(text)} - _COMMON


def extractive_summary(messages: Sequence[ModelMessage]) -> str:
    """The summary for a request: its task, the earlier summary if there is one, and the messages since."""
    notes, earlier_chars = SummaryLines(), 0
    for message in messages[1:]:
        if message.data == SUMMARY:
            earlier_chars = len(message.content) - len(EARLIER)
            notes.add(message.content.split("\n")[1:])
        elif not message.data:
            for line in lines_of(message):
                notes.correct(line)
                notes.add([line])
    said_chars = sum(len(message.content) for message in messages)
    most = max(SUMMARY_CHARS_MIN, earlier_chars, said_chars // SUMMARY_SHARE)
    return "\n".join(fitting(notes.lines(), most)) or NOTHING


class SummaryLines:
    """Lines in the order of their last occurrence, each once, indexed by their words."""

    def __init__(self) -> None:
        self._words: dict[str, frozenset[str]] = {}  # by line
        self._holders: dict[str, dict[str, None]] = {}  # by word, the lines that hold it

    def lines(self) -> list[str]:
        return list(self._words)

    def add(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.drop(line)
            if line.strip():
                words = frozenset(word for word in keywords(_CORRECTION.sub("", line)) if not word[:1].isdigit())
                self._words[line] = words
                for word in words:
                    self._holders.setdefault(word, {})[line] = None

    def drop(self, line: str) -> None:
        for word in self._words.pop(line, ()):
            del self._holders[word][line]

    def correct(self, line: str) -> None:
        """Drop the line that a correction replaces: the one whose rare words it repeats the most, and more than half.

        A similar line about another name is kept: keeping an outdated line is better than losing a true one.
        """
        if not _CORRECTION.search(line):
            return
        said, names = keywords(line), names_in(line)
        near = {old: None for word in sorted(said) if self._rarity(word) for old in self._holders[word]}
        same = [old for old in near if not (names and (theirs := names_in(old)) and names.isdisjoint(theirs))]
        about = max(same, key=lambda old: self._repeated(old, said), default=None)
        if about is not None and self._repeated(about, said) > 0.5:
            self.drop(about)

    def _repeated(self, line: str, said: set[str]) -> float:
        rarity = {word: self._rarity(word) for word in self._words[line]}
        return sum(share for word, share in rarity.items() if word in said) / (sum(rarity.values()) or 1.0)

    def _rarity(self, word: str) -> float:
        held = len(self._holders.get(word, ()))
        return 1 / held if 0 < held <= RARE_MAX else 0.0


def lines_of(message: ModelMessage) -> list[str]:
    """The sentences with a weight; of a message without any, its first sentence, which is dropped first."""
    if message.role == "assistant":  # its other sentences repeat or comment on those of others
        return [_line(f"assistant: {said}") for said in _SENTENCE_END.split(message.content) if _PROMISE.search(said)]
    if message.role == "system":
        return []
    said = [sentence for sentence in _SENTENCE_END.split(message.content) if sentence.strip()]
    worthy = [sentence for sentence in said if worth(sentence) > 0] or said[:1]
    return [_line(part) for sentence in worthy for part in _parts(sentence.strip())]


def _line(text: str) -> str:
    return f"- {text.strip().rstrip('.!')[:LINE_CHARS_MAX]}"


def _parts(sentence: str) -> list[str]:
    """A sentence that is too long for a line is reduced to its facts, if it has any."""
    return [sentence] if len(sentence) <= LINE_CHARS_MAX else facts(sentence) or [sentence]


def worth(line: str) -> int:
    """The weight of a line."""
    if line.rstrip().endswith("?"):
        return 0
    marks = (FACT, _WEIGHTY, _CORRECTION, _LONG_NUMBER)
    names = len(names_in(line))
    return 2 * sum(bool(mark.search(line)) for mark in marks) + 2 * min(2, names) + bool(_SHORT_NUMBER.search(line))


def names_in(line: str) -> set[str]:
    """Capitalised words that do not merely begin a sentence."""
    return {name.removesuffix("'s") for name in _NAME.findall(line)}


def fitting(lines: Sequence[str], chars_max: int) -> list[str]:
    """As many lines as fit, in their order: the lightest are dropped first, and of equals the oldest."""
    excess = sum(len(line) + 1 for line in lines) - 1 - chars_max
    gone: set[int] = set()
    for position in sorted(range(len(lines)), key=lambda n: (worth(lines[n]), n)):
        if excess <= 0:
            break
        gone.add(position)
        excess -= len(lines[position]) + 1
    return [line for n, line in enumerate(lines) if n not in gone]
