"""A real conversation as the input of the measurement: a JSON file `{"messages": [...]}` in the chat format.

Nothing is planted. The facts are details that the conversation has exactly once: numbers, dates, and names of people,
files or things. The question about a detail is the sentence that said it, without the detail.

Limit: a detail that both sides repeat is no fact here, though a summary may well keep it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from holdfast.eval.compression.conversation import (
    TURNS_MAX,
    TURNS_MIN_PER_COMPRESSION,
    DialogueTurn,
    PlantedConversation,
    PlantedFact,
)
from holdfast.eval.compression.facts import Fact, FactKind
from holdfast.eval.compression.retention import normal
from holdfast.kernel.errors import InvalidInput
from holdfast.turns.journal import storable

FILE_BYTES_MAX = 256 << 20
QUESTION_CHARS_MAX = 300
GAP = "…"  # in the place of the detail
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_DETAILS = (
    (FactKind.DATE, re.compile(rf"\b(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}} (?:{_MONTH}) \d{{4}})\b")),
    (FactKind.NAME, re.compile(r"(?<![\w/.])[\w~-]*[/_@.][\w/_@.~-]*\w(?![\w/])")),
    (FactKind.NUMBER, re.compile(r"(?<![\w.,/-])\d[\d.,:]*\d(?![\w/-])")),
    (FactKind.NAME, re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{3,}\b")),
)
# The roles of the chat format, and that of a record which Hermes keeps among its messages.
ROLES = ("user", "assistant", "tool", "function", "system", "developer", "session_meta")
DIGITS_MIN = 3
CHARS_MIN = 4


def read_transcript(file: Path) -> list[DialogueTurn]:
    """The turns of a transcript. Raises `InvalidInput`, which names the fault and its place."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise InvalidInput(f"{file} is larger than {FILE_BYTES_MAX} bytes", file=str(file))
        read = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} is not JSON: {error}", file=str(file)) from error
    messages = read.get("messages") if isinstance(read, dict) else None
    if not isinstance(messages, list):
        raise InvalidInput(f'{file} is not an object with a list "messages"', file=str(file))
    for n, message in enumerate(messages):
        fault = _fault(message)
        if fault:
            raise InvalidInput(f"{file}: messages[{n}] {fault}", file=str(file))
    return list(_turns(messages))


def _fault(message: object) -> str:
    """What is wrong with a message; empty if nothing is."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return "has no role"
    if message["role"] not in ROLES:
        return f"has the role {message['role'][:40]!r}; it must be one of {', '.join(ROLES)}"
    if not isinstance(message.get("content"), str | list | None):
        return "has a content that is neither a text nor a list of parts"
    return ""


def _turns(messages: Iterable[Mapping[str, object]]) -> Iterator[DialogueTurn]:
    """A turn begins with a user's message that follows an answer. Results of tools belong to the answer."""
    current: DialogueTurn | None = None
    for message in messages:
        role, text = message["role"], _text(message.get("content"))
        if role == "user" and (current is None or current.assistant):
            if current is not None:
                yield current
            current = DialogueTurn(user=text, assistant="")
        elif role in {"user", "assistant", "tool", "function"} and text:
            current = current or DialogueTurn(user="", assistant="")
            side = "user" if role == "user" else "assistant"
            setattr(current, side, "\n".join(filter(None, (getattr(current, side), text))))
    if current is not None:
        yield current


def _text(content: object) -> str:
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, dict)]
        return storable("\n".join(part for part in parts if isinstance(part, str)))
    return storable(content) if isinstance(content, str) else ""


def plan_transcript(turns: Sequence[DialogueTurn], *, facts: int, compressions: int) -> PlantedConversation:
    """The conversation with its details as facts. Raises `InvalidInput` if it is too short or has no details."""
    least = compressions * TURNS_MIN_PER_COMPRESSION
    if not least <= len(turns) <= TURNS_MAX:
        what = f"the transcript has {len(turns)} turns; {compressions} compressions need from {least} to {TURNS_MAX}"
        raise InvalidInput(what)
    found = _spread(find_details(turns), facts)
    if not found:
        raise InvalidInput("the transcript has no number, date or name that it says exactly once")
    edges = [len(turns) * n // compressions for n in range(compressions + 1)]
    segments = tuple(range(start + 1, end + 1) for start, end in pairwise(edges))
    return PlantedConversation(exchanges=tuple(turns), planted=tuple(found), segments=segments)


def find_details(turns: Sequence[DialogueTurn]) -> list[PlantedFact]:
    """The details that stand in one sentence of the whole conversation, in order."""
    words = [normal(f"{turn.user}\n{turn.assistant}") for turn in turns]
    everything = "\n".join(words)
    details = []
    for n, turn in enumerate(turns, start=1):
        for speaker, said in (("user", turn.user), ("assistant", turn.assistant)):
            for sentence in _SENTENCE.split(said):
                for kind, value in _values(sentence):
                    if everything.count(normal(value)) == 1:
                        fact = Fact(
                            kind=kind, speaker=speaker, said=sentence, question=_gap(sentence, value), value=value
                        )
                        details.append(PlantedFact(fact, n))
    return details


def _values(sentence: str) -> Iterator[tuple[FactKind, str]]:
    left = sentence
    for kind, pattern in _DETAILS:
        for value in pattern.findall(left):
            is_long = len(value) >= CHARS_MIN if kind is FactKind.NAME else sum(map(str.isdigit, value)) >= DIGITS_MIN
            if is_long:
                yield kind, value
        left = pattern.sub(" ", left)


def _gap(sentence: str, value: str) -> str:
    return sentence.replace(value, GAP)[:QUESTION_CHARS_MAX]


def _spread(details: Sequence[PlantedFact], limit: int) -> list[PlantedFact]:
    """At most `limit` details, from the whole length of the conversation."""
    if len(details) <= limit:
        return list(details)
    return [details[len(details) * n // limit] for n in range(limit)]
