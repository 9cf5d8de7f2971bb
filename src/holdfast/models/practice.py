"""The practice model: offline and deterministic, for demos and tests.

It repeats facts of the conversation ("my cat is called Byron"), answers questions from the context, including recalled
facts, calls a tool on request (`use clock {}`), and writes extractive summaries (extractive_summary.py). It says when
it cannot answer.

Extraction makes notes of sentences that match the patterns of facts. It does not recognise two notes with the same
meaning. A consolidation removes notes that another one contains word for word, and adds none.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence

from holdfast.models.extractive_summary import extractive_summary, facts, keywords, sentences
from holdfast.sessions.extraction import CONSOLIDATE_MARK, NOTES_MARK, TALK_MARK
from holdfast.turns.context import ModelMessage
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
        match request.task:
            case ModelTask.SUMMARY:
                answer = _answer(request.messages, extractive_summary(request.messages))
            case ModelTask.EXTRACT:
                answer = _answer(request.messages, extract(request.messages))
            case _:
                answer = reply(request)
        for word in re.findall(r"\S+\s*", answer.text):
            yield TextDelta(word)
        yield answer


def reply(request: ModelRequest) -> ModelAnswer:
    messages = request.messages
    last, looked_up = _last_and_data(messages)
    if last.role == "tool":
        return _answer(messages, f"The tool {last.name} answered: {last.content}{looked_up}")
    asked = next((message.content for message in reversed(messages) if _is_said(message)), "")
    wanted = _USE.match(asked.strip())
    if wanted:
        return _use(messages, wanted, request.tools)
    if asked.rstrip().endswith("?"):
        return _answer(messages, _answer_question(asked, messages))
    told = facts(asked)
    if told:
        return _answer(messages, f"Noted: {'; '.join(told)}.")
    return _answer(messages, f"You said: {asked.strip()} (I am the practice model: configure a real one to talk.)")


def _last_and_data(messages: Sequence[ModelMessage]) -> tuple[ModelMessage, str]:
    """The newest message that is not data, and the data after it, such as a recall by a tool."""
    place = next((n for n in range(len(messages) - 1, -1, -1) if not messages[n].data), None)
    if place is None:
        return ModelMessage(role="user", content=""), ""
    return messages[place], "".join(f"\n{one.content}" for one in messages[place + 1 :])


def _use(messages: Sequence[ModelMessage], wanted: re.Match[str], tools: Sequence[ToolSpec]) -> ModelAnswer:
    name = wanted["name"]
    if name not in {tool.name for tool in tools}:
        known = ", ".join(tool.name for tool in tools) or "none"
        return _answer(messages, f"There is no tool {name}; I have: {known}.")
    call = ToolCall(id=f"call_{len(messages)}", name=name, arguments=wanted["arguments"] or "{}")
    return ModelAnswer(text="", calls=(call,), usage=_usage(messages, name))


def _answer_question(asked: str, messages: Sequence[ModelMessage]) -> str:
    """The sentence of the context that shares most words with the question."""
    wanted = keywords(asked)
    best, best_score = "", 0
    question = max((n for n, message in enumerate(messages) if _is_said(message)), default=-1)
    for n, message in enumerate(messages):
        if message.role == "assistant" or n == question:
            continue
        for sentence in sentences(message.content):
            score = len(wanted & keywords(sentence))
            if score >= max(best_score, 1) and not sentence.rstrip().endswith("?"):
                best, best_score = sentence, score
    return f"You told me: {best.strip()}" if best else "I do not know that; nothing in our conversation says so."


def _is_said(message: ModelMessage) -> bool:
    return message.role == "user" and not message.data


def _answer(messages: Sequence[ModelMessage], text: str) -> ModelAnswer:
    return ModelAnswer(text=text, usage=_usage(messages, text))


def _usage(messages: Sequence[ModelMessage], text: str) -> Usage:
    counted = sum(estimate_tokens(message.content) for message in messages)
    return Usage(tokens_in=counted, tokens_out=estimate_tokens(text))


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
