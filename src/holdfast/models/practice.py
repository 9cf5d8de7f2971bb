"""The practice model: offline, deterministic, honest about being a stand-in.

It is good enough that demos and tests mean something: it remembers what it is told in a conversation ("my cat is
called Byron"), answers questions from what the context holds, recalled facts included, calls a tool when asked to
(`use clock {}`), and writes summaries that keep the facts. What it cannot do, it says.
"""

import re
from collections.abc import AsyncIterator, Iterable, Sequence

from holdfast.core.context import ModelMessage
from holdfast.core.journal import ToolCall, estimate_tokens
from holdfast.core.turn import Usage
from holdfast.ports.model import Answer, ModelEvent, ModelRequest, Task, TextDelta, ToolSpec

# Every repetition is bounded or stands alone, so that no message, however long, takes more than linear time.
_FACT = re.compile(
    r"\b(?:my|our|the|his|her)(?:\s{1,4}[\w'-]{1,30}){1,8}?\s{1,4}(?:is|are|was|were|lives?|likes?)\b[^.!?\n]{1,160}"
    r"|\bI(?:'m| am| live| like| love| have| work| need| prefer)\b[^.!?\n]{1,160}"
    r"|\bremember (?:that )?[^.!?\n]{1,160}",
    re.IGNORECASE,
)
_USE = re.compile(r"use (?P<name>[\w.-]+)(?:\s*(?P<arguments>\{.*\}))?\Z", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"[\w']+")
_COMMON = frozenset(
    {
        *("a", "an", "and", "are", "called", "did", "do", "does", "for", "have", "i", "in", "is", "it", "me", "my"),
        *("name", "of", "on", "our", "remember", "say", "tell", "that", "the", "to", "was", "we", "were", "what"),
        *("when", "where", "which", "who", "why", "you", "your", "about", "know", "can", "how", "s", "what's"),
    }
)
SUMMARY_LINES_MAX = 200
LINE_CHARS_MAX = 200


class PracticeModel:
    """Implements `Model`. The same request always gets the same answer."""

    name = "practice"

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        answer = summarise(request.messages) if request.task is Task.SUMMARY else reply(request)
        for word in re.findall(r"\S+\s*", answer.text):
            yield TextDelta(word)
        yield answer


def reply(request: ModelRequest) -> Answer:
    messages = request.messages
    last = messages[-1] if messages else ModelMessage(role="user", content="")
    if last.role == "tool":
        return _answer(messages, f"The tool {last.name} answered: {last.content}")
    asked = _last_user_text(messages)
    wanted = _USE.match(asked.strip())
    if wanted:
        return _use(messages, wanted, request.tools)
    if asked.rstrip().endswith("?"):
        return _answer(messages, _answer_question(asked, messages))
    facts = _facts(asked)
    if facts:
        return _answer(messages, f"Noted: {'; '.join(facts)}.")
    return _answer(messages, f"You said: {asked.strip()} (I am the practice model: configure a real one to talk.)")


def _use(messages: Sequence[ModelMessage], wanted: re.Match[str], tools: Sequence[ToolSpec]) -> Answer:
    name = wanted["name"]
    if name not in {tool.name for tool in tools}:
        known = ", ".join(tool.name for tool in tools) or "none"
        return _answer(messages, f"There is no tool {name}; I have: {known}.")
    call = ToolCall(id=f"call_{len(messages)}", name=name, arguments=wanted["arguments"] or "{}")
    return Answer(text="", calls=(call,), usage=_usage(messages, name))


def _answer_question(asked: str, messages: Sequence[ModelMessage]) -> str:
    """The sentence of the context that shares most words with the question."""
    wanted = _keywords(asked)
    best, best_score = "", 0
    for message in messages[:-1]:
        if message.role == "assistant":
            continue
        for sentence in _sentences(message.content):
            score = len(wanted & _keywords(sentence))
            if score >= max(best_score, 1) and not sentence.rstrip().endswith("?"):
                best, best_score = sentence, score
    return f"You told me: {best.strip()}" if best else "I do not know that; nothing in our conversation says so."


def summarise(messages: Sequence[ModelMessage]) -> Answer:
    """Keep every line of the earlier summary and every fact said since, each once, newest last."""
    lines: dict[str, None] = {}
    for message in messages[1:]:
        if message.content.startswith("Earlier summary:\n"):
            lines.update(dict.fromkeys(message.content.split("\n")[1:]))
        elif message.role in {"user", "tool"}:
            lines.update(dict.fromkeys(_gist(message)))
    kept = [line for line in lines if line.strip()][-SUMMARY_LINES_MAX:]
    return _answer(messages, "\n".join(kept) or "- (nothing worth keeping was said)")


def _gist(message: ModelMessage) -> Iterable[str]:
    found = _facts(message.content) or [message.content.strip().split("\n")[0]]
    return [f"- {fact[:LINE_CHARS_MAX]}" for fact in found]


def _facts(text: str) -> list[str]:
    return [match.group(0).strip() for match in _FACT.finditer(text)]


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+|\n", text)


def _keywords(text: str) -> set[str]:
    return {word.lower().removesuffix("'s") for word in _WORD.findall(text)} - _COMMON


def _last_user_text(messages: Sequence[ModelMessage]) -> str:
    return next((message.content for message in reversed(messages) if message.role == "user"), "")


def _answer(messages: Sequence[ModelMessage], text: str) -> Answer:
    return Answer(text=text, usage=_usage(messages, text))


def _usage(messages: Sequence[ModelMessage], text: str) -> Usage:
    counted = sum(estimate_tokens(message.content) for message in messages)
    return Usage(tokens_in=counted, tokens_out=estimate_tokens(text))
